"""Credit: the cost that each decision saved, and the reward of each decision, by every metric and reward."""

import hashlib
import random
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files
from tests.corpus.conftest import record
from tests.fakes.compiles import running_compile
from tests.fakes.drive import finish, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")

INLINE = "mlgo/Inline-v0"

HEADER = "inline int shared(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n * 77 + (s >> 3); return s; }\n"
OTHER = '#include "shared.h"\nint other(int n) { return shared(n) * shared(n + 2) + n; }\n'
CALLS = (
    '#include "shared.h"\nint other(int n);\n'
    "static int small(int n) { return n * 3 + 1; }\n"
    "static int own(int n) { int s = 0; for (int i = 0; i < n; ++i) s += small(i) * n + (s >> 5); return s; }\n"
    "int twice(int n) { return shared(n) + shared(n + 1) + own(n) + own(n + 3) + small(n); }\n"
    "int main() { volatile int s = 0; for (int i = 0; i < 99; ++i) s += twice(i) + other(i); return 0; }\n"
)
PROGRAM = '[programs.calls]\nlink = "program"\nruns = [{{sha256 = "{}"}}]\n'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> str:
    """A corpus of two modules with their link and their program."""
    project = tmp_path_factory.mktemp("program") / "project"
    write_files(project, {"shared.h": HEADER, "calls.cpp": CALLS, "other.cpp": OTHER})
    script = "$CXX -Os -fno-exceptions -c calls.cpp other.cpp; $CXX calls.o other.o -o program"
    recorded = record(project, script, toolchain)
    assert (recorded.status, recorded.links) == (0, 1)
    (recorded.corpus / "programs.toml").write_text(PROGRAM.format(hashlib.sha256(b"").hexdigest()))
    return str(recorded.corpus)


def play(env: Any, seed: int, module: str | None = None) -> tuple[float, dict[str, Any]]:
    """Play an episode with some decisions other than clang's; return its reward and last info."""
    generator = random.Random(seed)

    def choose(info: dict[str, Any]) -> int:
        legal = np.flatnonzero(info.get("action_mask", np.ones(2)))
        return int(generator.choice(legal) if generator.random() < 0.4 else info["default_action"])

    _, last = run(env, choose, seed=seed, **({"module": module} if module else {}))
    assert not last.truncated
    return last.reward, last.info


REWARDS = ("relative", "bytes")
OF_PROGRAMS: list[Any] = ["instructions", "linked"]
WEIGHTS: list[Any] = [{"instructions": 0.5}, {"text": 1, "instructions": 1}, dict.fromkeys(["text", *OF_PROGRAMS], 0.1)]
CASES = [
    *((INLINE, {"reward": reward}) for reward in REWARDS),
    (INLINE, {"metric": {"text": 3}}),
    (INLINE, {"reward": "bytes", "max_decisions": 3}),
]
SLOW_CASES = [
    *((INLINE, {"metric": metric, "reward": reward}) for metric in OF_PROGRAMS for reward in REWARDS),
    *((INLINE, {"metric": weights}) for weights in WEIGHTS),
    (INLINE, {"metric": "linked", "reward": "bytes", "max_decisions": 3}),
]


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_rewards_of_decisions_add_up_and_follow_credit(name: str, arguments: dict[str, Any], families: Path) -> None:
    check_rewards(name, str(families), arguments)


def test_a_weight_scales_the_credit_of_every_decision(families: Path) -> None:
    """The sum holds for any split, because the rest is divided equally; so each decision is compared."""
    infos = []
    for metric in ("text", {"text": 1}, {"text": 3}):
        env: Any = gym.make(INLINE, corpus=str(families), credit=True, metric=metric).unwrapped
        infos.append(play(env, 0, env.corpus.names[0])[1])
        env.close()
    saved, one, three = (np.array(info["credit"]) for info in infos)
    assert len(set(saved.tolist())) > 2
    assert one == pytest.approx(saved / infos[0]["baseline_text"])
    assert three == pytest.approx(3 * one)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first link builds libraries of C++
@pytest.mark.parametrize(("name", "arguments"), SLOW_CASES, ids=str)
def test_rewards_of_linked_and_run_programs_too(name: str, arguments: dict[str, Any], program: str) -> None:
    check_rewards(name, program, arguments)


def check_rewards(name: str, corpus: str, arguments: dict[str, Any]) -> None:
    metric = arguments.get("metric", "text")
    if "instructions" in metric and shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    key = metric if isinstance(metric, str) else "weighted"
    env: Any = gym.make(name, corpus=corpus, credit=True, compile_options={"trust_flags": True}, **arguments).unwrapped
    differing = 0
    for seed in range(4):
        reward, info = play(env, seed, env.corpus.names[0])
        credit, rewards = np.array(info["credit"]), np.array(info["rewards"])
        assert credit.shape == rewards.shape == (info["decisions"],)
        assert credit.sum() == pytest.approx(info[f"baseline_{key}"] - info[key], abs=1e-9)
        assert rewards.sum() == pytest.approx(reward, rel=1e-9, abs=1e-12)
        if credit.any():
            unit = np.abs(rewards).max() / np.abs(credit).max()
            assert unit > 0
            assert rewards == pytest.approx(unit * credit)
        differing += reward != 0
    assert differing
    env.close()


def test_decisions_share_the_reward_of_a_failed_compile(families: Path) -> None:
    with InlineEnv(corpus=str(families), credit=True, error_reward=-1.0) as env:
        _, info = env.reset(seed=0)
        for _ in range(3):
            _, _, _, _, info = env.step(info["default_action"])
        running_compile(env).kill()
        _, reward, failed, _, info = env.step(0)
        assert failed
        assert reward == -1
        assert info["rewards"] == pytest.approx([-1 / info["decisions"]] * info["decisions"])


def test_a_fork_has_the_credit_of_its_own_decisions(families: Path) -> None:
    with InlineEnv(corpus=str(families), credit=True) as env:
        _, info = env.reset(seed=0)
        _, _, _, _, info = env.step(info["default_action"])
        copied = env.fork()
        for one, flip in ((copied, 1), (env, 0)):
            last = finish(one, {"default_action": info["default_action"] ^ flip})[-1].info
            assert any(last["credit"]) == bool(flip)
            assert sum(last["credit"]) == pytest.approx(last["baseline_text"] - last["text"])
        copied.close()
