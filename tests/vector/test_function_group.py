"""Several functions of one compile as several environments."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.envs.inline import InlineVectorEnv
from mlgo_gym.envs.regalloc_evict import RegAllocEvictVectorEnv
from mlgo_gym.errors import CorpusError, MlgoError
from tests.conftest import MakeBitcode
from tests.vector.stepping import row_info

pytestmark = pytest.mark.usefixtures("nothing_is_left")

Place = tuple[str, int, int]


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


def make(bitcode: Path | str, num_envs: int, size: int, **options: Any) -> InlineVectorEnv:
    return InlineVectorEnv(
        num_envs, corpus=str(bitcode), scope="function", functions_per_compile=size, reward="bytes", **options
    )


class Player:
    """Plays a vector environment with `send()` and `recv()`, and gathers the episodes of each environment."""

    def __init__(self, envs: InlineVectorEnv, share: float, seed: int) -> None:
        self.envs = envs
        self.answers: dict[int, dict[Place, int]] = {number: {} for number in range(envs.num_envs)}
        self.episodes: list[tuple[int, dict[str, Any], float, dict[Place, int]]] = []
        self.order: list[int] = []
        self._share = share
        self._generators = [random.Random(f"{seed} {number}") for number in range(envs.num_envs)]

    def play(self, episodes: int, seed: int, **options: Any) -> None:
        self.envs.async_reset(seed=seed, options=options)
        while True:
            _, rewards, terminations, truncations, info = self.envs.recv()
            actions = []
            for row, number in enumerate(info["env_id"].tolist()):
                own = row_info(info, row)
                self.order.append(number)
                if terminations[row] or truncations[row]:
                    self.episodes.append((number, own, float(rewards[row]), self.answers[number]))
                    self.answers[number] = {}
                    actions.append(0)
                else:
                    assert own["decision"] == len(self.answers[number])
                    action = int(own["default_action"]) ^ (self._generators[number].random() < self._share)
                    self.answers[number][own["context"], own["visit"], own["position"]] = action
                    actions.append(action)
            if len(self.episodes) >= episodes:
                return
            self.envs.send(np.array(actions))


def alone(env: InlineEnv, module: str, function: str, answers: dict[Place, int]) -> float:
    """The reward of an episode of one function that has a compile of its own, with the same answers."""
    _, info = env.reset(options={"module": module, "function": function})
    ended = False
    while not ended:
        place = info["context"], info["visit"], info["position"]
        _, reward, ended, _, info = env.step(answers.get(place, info["default_action"]))
    return reward


def test_functions_of_one_compile_share_what_it_saved(bitcode: Path) -> None:
    envs = make(bitcode, 4, 4, credit=True)
    player = Player(envs, 0.3, 1)
    player.play(8, seed=1)
    envs.close()
    compiles: dict[tuple[int, int], list[float]] = {}
    assert len({info["context"] for _, info, _, _ in player.episodes[:4]}) == 4
    for _, info, reward, answers in player.episodes:
        assert reward == pytest.approx(info["saved"])
        assert info["saved"] == pytest.approx(sum(info["credit"]))
        assert info["decisions"] == len(answers) == len(info["credit"])
        assert {place[0] for place in answers} == {info["context"]}
        compiles.setdefault((info["text_size"], info["baseline_text_size"]), []).append(reward)
    for (text, baseline), rewards in compiles.items():
        # Compiles of equal size are counted together.
        assert sum(rewards) == pytest.approx((baseline - text) * max(1, round(len(rewards) / 4)), abs=0.01)


def test_rewards_agree_with_episodes_that_have_a_compile_of_their_own(bitcode: Path) -> None:
    envs = make(bitcode, 4, 4)
    player = Player(envs, 0.25, 2)
    player.play(16, seed=2)
    envs.close()
    env = InlineEnv(corpus=str(bitcode), scope="function", reward="bytes")
    pairs = [
        (reward, alone(env, info["module"], info["context"], answers)) for _, info, reward, answers in player.episodes
    ]
    env.close()
    equal = sum(abs(shared - own) < 0.01 for shared, own in pairs)
    signs = sum(np.sign(shared) == np.sign(own) for shared, own in pairs)
    sys.stdout.write(f"{len(pairs)} episodes: {equal} with the same reward to the byte, {signs} with the same sign\n")
    assert sum(own != 0 for _, own in pairs) > len(pairs) / 4
    assert equal >= 0.6 * len(pairs)
    assert signs >= 0.8 * len(pairs)


def test_the_same_seed_gives_the_same_episodes(bitcode: Path) -> None:
    played = []
    for _ in range(2):
        envs = make(bitcode, 4, 2)
        player = Player(envs, 0.3, 3)
        player.play(8, seed=5)
        envs.close()
        played.append(
            sorted((number, info["context"], reward) for number, info, reward, _ in player.episodes if number < 2)[:2]
        )
    assert played[0] == played[1]


def test_a_function_that_is_not_come_to_waits_for_the_next_compile(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source = tmp_path / "few.c"
    source.write_text(
        "int use(int); static int one(int x) { return use(x) * 3; } int top(int x) { return one(x) + one(x + 1); }"
    )
    envs = make(make_bitcode(source), 3, 3)
    player = Player(envs, 0.0, 0)
    player.play(4, seed=0)
    envs.close()
    # The module has one function with decisions: each compile is an episode of one of them.
    assert {info["context"] for _, info, _, _ in player.episodes} == {"top"}


def test_functions_can_be_named(bitcode: Path) -> None:
    envs = make(bitcode, 2, 2)
    player = Player(envs, 0.5, 4)
    player.play(2, seed=0, module="families", function=["clipped", "middle"])
    assert {number: info["context"] for number, info, _, _ in player.episodes} == {0: "clipped", 1: "middle"}
    with pytest.raises(CorpusError, match="wanted twice"):
        player.play(2, seed=0, module="families", function=["clipped", "clipped"])
    envs.close()


def test_who_waits_for_others_is_told(bitcode: Path) -> None:
    envs = make(bitcode, 2, 2)
    envs.async_reset(seed=0, env_ids=[1])
    with pytest.raises(MlgoError, match=r"environments \[1\] wait for others"):
        envs.recv()
    envs.async_reset(seed=0, env_ids=[0])
    assert envs.recv()[-1]["module"][0] == "families"
    envs.close()


def test_a_failing_compile_ends_all_its_episodes(bitcode: Path) -> None:
    envs = make(bitcode, 2, 2)
    envs.async_reset(seed=1, options={"module": "families", "function": ["clipped", "middle"]})
    first = None
    while True:
        _, _, terminations, truncations, info = envs.recv()
        if truncations.any() or first not in (None, int(info["env_id"][0])):
            break
        first = int(info["env_id"][0])
        envs.send([0])
    # Both have begun now.
    group = envs._sub_envs[0]._group  # type: ignore[union-attr] # the kind that a shared compile has
    assert group.stepper is not None
    group.stepper.episode.session.kill()
    envs.send([0])
    ended = set()
    for _ in range(2):
        _, _, terminations, truncations, info = envs.recv()
        assert truncations.all()
        assert not terminations.any()
        assert row_info(info, 0)["error"]["kind"] == "signal"
        ended.add(int(info["env_id"][0]))
        envs.send([0], info["env_id"])
    assert ended == {0, 1}
    assert not envs.recv()[3].any()
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 3}, "multiple"),
        ({"batch_size": 2}, "batch_size must be at most 1"),
        ({"metric": "object"}, "the metric 'object'"),
        ({"scope": "module"}, "scope='module'"),
        ({"autoreset_mode": "SameStep"}, "NEXT_STEP"),
        ({"functions_per_compile": 0}, "at least 1"),
    ],
    ids=str,
)
def test_what_cannot_share_a_compile_is_refused(bitcode: Path, arguments: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"num_envs": 2, "functions_per_compile": 2, "scope": "function", "corpus": str(bitcode)}
    with pytest.raises(MlgoError, match=message):
        InlineVectorEnv(**{**options, **arguments})


def test_lock_step_is_refused(bitcode: Path) -> None:
    envs = make(bitcode, 2, 2)
    with pytest.raises(MlgoError, match="async_reset"):
        envs.reset(seed=0)
    envs.close()


def test_registers_are_not_allocated_together(bitcode: Path) -> None:
    assert RegAllocEvictEnv is not None
    with pytest.raises(MlgoError, match="inlining environment"):
        RegAllocEvictVectorEnv(2, corpus=str(bitcode), scope="function", functions_per_compile=2)
