"""A compiler that crashes, stalls or writes much affects only its own environment."""

import copy
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import ActionError, CompilerError, MlgoError
from mlgo_gym.testing import assert_equal_results, check_vector_environment
from tests.conftest import PROGRAMS, clang_program, copy_modules
from tests.fakes.compiles import running_compile
from tests.fakes.stepping import EVICT, INLINE, clang_of, end_clang, make, make_sync, row_info

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FAULTY = """case "$*" in
*crash.bc*) kill -SEGV $$ ;;
*stall.bc*) exec sleep 600 ;;
*late.bc*) case "$*" in *-interactive-channel-base*) ;; *) kill -SEGV $$ ;; esac ;;
esac"""


@pytest.fixture
def faulty(varied: str, tmp_path: Path) -> dict[str, Any]:
    """Arguments of an environment whose clang crashes on one module, stalls on one, and fails on one baseline."""
    program = clang_program(tmp_path / "faulty-clang", FAULTY)
    modules = dict.fromkeys(("calls", "crash", "stall"), Path(varied, "calls.bc"))
    # Another module: the baseline of the same one is cached.
    modules |= {"late": Path(varied, "mixed.bc"), "text": PROGRAMS / "calls.c"}
    folder = copy_modules(tmp_path / "corpus", modules)
    return {"corpus": str(folder), "clang": str(program), "compile_options": {"timeout": 0.7}}


def test_an_agent_may_take_longer_than_the_timeout(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make(INLINE, varied, 2)
    _, info = envs.reset(seed=1, options={"module": "calls"})
    elapsed = 0.0
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + elapsed)  # a slow agent, without the wait
    for _ in range(2):
        envs.send(info["default_action"])
        for number in range(2):
            assert select.select(running_compile(envs, number).session.descriptors(), [], [], 30.0)[0]
        elapsed += 1e6
        _, _, _, truncations, info = envs.recv()
        assert not truncations.any()
    envs.close()


@pytest.mark.parametrize("prefetch", [0, 1])
def test_the_reward_of_an_episode_precedes_the_error_of_the_next_start(prefetch: int, faulty: dict[str, Any]) -> None:
    arguments = {**faulty, "module_order": "cycle", "error_reward": None, "max_decisions": 1}
    envs = make(INLINE, num_envs=1, autoreset_mode="SameStep", prefetch=prefetch, **arguments)
    _, info = envs.reset()
    assert info["module"].tolist() == ["calls"]  # the next one is `crash`
    observations, rewards, terminations, _, info = envs.step([0])
    assert terminations.tolist() == [True]
    assert rewards.tolist() == [info["final_info"]["reduction"][0]] != [0.0]
    assert not observations.any()
    assert "module" not in info
    with pytest.raises(CompilerError, match=r"^environment 0: .*SIGSEGV"):
        envs.step([0])
    with pytest.raises(ActionError, match="reset it first"):
        envs.step([0])
    copy.deepcopy(envs).close()  # which is refused while an episode runs
    assert envs.reset(options={"module": "calls"})[1]["module"].tolist() == ["calls"]
    envs.close()


@pytest.mark.parametrize("resumes", ["the next action", "a reset with a mask", "async_reset"])
def test_after_an_error_the_others_are_received_and_the_failed_one_starts_again(resumes: str, varied: str) -> None:
    """Two clangs crash at once: each error is raised once, and no result of the others is lost."""
    envs = make(INLINE, varied, 4, error_reward=None)
    envs.reset(options={"module": "calls"})
    end_clang(envs, 1)
    end_clang(envs, 2)
    with pytest.raises(CompilerError, match=r"^environment 1: .*SIGSEGV"):
        envs.step([1, 1, 1, 1])
    with pytest.raises(MlgoError, match=r"which is running; recv\(\) it first"):
        envs.step([1, 1, 1, 1])
    with pytest.raises(CompilerError, match=r"^environment 2: .*SIGSEGV"):
        envs.recv()
    observations, *_, info = envs.recv()
    assert (len(observations), sorted(info["env_id"]), info["decision_index"].tolist()) == (2, [0, 3], [1, 1])
    with pytest.raises(MlgoError, match=r"expected 4 running environments for recv\(\), got 0"):
        envs.recv()
    failed = np.array([False, True, True, False])
    if resumes == "a reset with a mask":
        envs.reset(options={"reset_mask": failed})
    elif resumes == "async_reset":
        envs.async_reset(mask=failed)
        envs.send([1, 1, 1, 1], mask=~failed)
        assert envs.recv()[4]["decision_index"].tolist() == [2, 0, 0, 2]
    *_, info = envs.step([1, 1, 1, 1])
    first = 0 if resumes == "the next action" else 1
    others = 3 if resumes == "async_reset" else 2
    assert info["decision_index"].tolist() == [others, first, first, others]
    envs.close()


@pytest.mark.parametrize("other", ["writes", "has exited"])
def test_a_clang_whose_decision_is_pending_makes_no_wait_spin(other: str, varied: str) -> None:
    options = {"timeout": 0.5, "extra_flags": ["-mllvm", "-interactive-model-runner-echo-reply"]}
    envs = make(INLINE, varied, 2, batch_size=1, compile_options=options)
    envs.reset(options={"module": "calls"})
    if other == "writes":
        envs.send([1], [0])
        envs.recv()
    else:
        end_clang(envs, 0)
    os.kill(clang_of(envs, 1), signal.SIGSTOP)
    before = time.process_time()
    envs.send([1], [1])
    assert envs.recv()[4]["error"]["kind"].tolist() == ["timeout"]
    assert time.process_time() - before < 0.25
    decisions, ended = 0, False
    while not ended:
        envs.send([1], [0])
        *last, info = envs.recv()
        decisions, ended = decisions + 1, bool(last[2][0] or last[3][0])
    assert decisions == (8 if other == "writes" else 1)
    assert info.get("error", {}).get("kind", ["none"])[0] == ("none" if other == "writes" else "signal")
    envs.close()


def test_modules_on_which_clang_fails_are_skipped_and_reported(faulty: dict[str, Any]) -> None:
    envs = make(INLINE, num_envs=2, max_decisions=1, prefetch=1, autoreset_mode="SameStep", **faulty)
    skipped: dict[str, str] = {}
    _, info = envs.reset(seed=0)
    for _ in range(8):
        assert set(info["module"]) <= {"calls", "late"}
        for row in range(2):
            skipped |= row_info(info, row).get("skipped", {})
        *_, info = envs.step([0, 0])
    envs.close()
    assert set(skipped) == {"crash", "stall", "text"}
    assert "SIGSEGV" in skipped["crash"]
    assert "within 0.7 s" in skipped["stall"]


def test_after_a_module_that_fails_the_next_one_is_drawn(calls: Path, broken: Path, tmp_path: Path) -> None:
    copy_modules(tmp_path, {"calls": calls, "broken": broken})

    def drawn(env: Any, seed: int | None) -> str:
        try:
            return str(np.squeeze(env.reset(seed=seed)[1]["module"]))
        except CompilerError:
            return "broken"

    arguments: dict[str, Any] = {"corpus": str(tmp_path), "error_reward": None}
    made: tuple[Any, ...] = make(INLINE, num_envs=1, **arguments), InlineEnv(**arguments)
    ours, single = ([drawn(env, seed) for seed in (0, *[None] * 23)] for env in made)
    assert ours == single
    assert {*ours} == {"broken", "calls"}
    for env in made:
        env.close()


MODES = list(AutoresetMode)


def assert_same(name: str, corpus: str, mode: AutoresetMode, steps: int, prefetch: int = 1, **options: Any) -> int:
    """Compare both, step by step; return the number of finished episodes."""
    vector_arguments = {"prefetch": prefetch}
    return check_vector_environment(
        name, steps=steps, modes=[mode], vector_arguments=vector_arguments, corpus=corpus, **options
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (EVICT, {"observation": "vector", "max_decisions": 4}),
        (EVICT, {"scope": "function", "max_decisions": 3}),
        (INLINE, {"credit": True, "max_decisions": 3}),
        (INLINE, {"prefetch": 0, "max_decisions": 3}),
        (INLINE, {"prefetch": 3, "max_decisions": 3}),
        # Only decisions on inlining have a callee.
        ("mlgo/Joint-v0", {"callee_features": True, "max_decisions": 12}),
    ],
    ids=str,
)
def test_no_option_makes_a_difference(name: str, options: dict[str, Any], varied: str) -> None:
    steps = max(16, 2 * options["max_decisions"])
    assert assert_same(name, varied, AutoresetMode.SAME_STEP, steps, **options) >= 6


def test_prefetching_failing_modules_changes_nothing(varied: str, broken: Any, tmp_path: Any, own_cache: Any) -> None:
    for number in range(3):
        tmp_path.joinpath(f"broken{number}.bc").write_bytes(broken.read_bytes())
        tmp_path.joinpath(f"leaf{number}.bc").symlink_to(f"{varied}/leaf.bc")
    for name in ("calls", "mixed"):
        tmp_path.joinpath(f"{name}.bc").symlink_to(f"{varied}/{name}.bc")
    assert assert_same(INLINE, str(tmp_path), AutoresetMode.SAME_STEP, 12, 3, max_decisions=2) >= 9


@pytest.mark.parametrize("prefetch", [0, 2])
def test_seeds_and_named_modules_advance_the_random_generators_alike(prefetch: int, varied: str) -> None:
    options: dict[str, Any] = {"scope": "function", "max_decisions": 1}
    ours, theirs = make(EVICT, varied, prefetch=prefetch, **options), make_sync(EVICT, varied, **options)
    try:
        seeds: tuple[int | list[int | None] | None, ...] = (1, [1, None, 2], None, [None] * 3, 4)
        for seed in seeds:
            assert_equal_results(ours.reset(seed=seed), theirs.reset(seed=seed))
        for choice in ({"module": "mixed"}, {}, {"module": "again"}, {"module": "mixed", "function": "crowd"}, {}, {}):
            assert_equal_results(ours.reset(options=dict(choice)), theirs.reset(options=dict(choice)))
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: mode.name)
def test_asynchronous_steps_equal_those_of_single_environments(mode: AutoresetMode, varied: str) -> None:
    envs = make(INLINE, varied, 4, batch_size=2, autoreset_mode=mode, max_decisions=4)
    steps: dict[int, list[Any]] = {number: [] for number in range(4)}
    envs.async_reset(seed=7)
    while min(map(len, steps.values())) < 15:
        _, rewards, terminations, _, info = envs.recv()
        actions = []
        for row, number in enumerate(info["env_id"]):
            own = row_info(info, row)
            steps[number].append((float(rewards[row]), bool(terminations[row]), own))
            actions.append(own.get("default_action", 0))
        envs.send(actions)
    envs.close()
    theirs = make_sync(INLINE, varied, 4, mode, max_decisions=4)
    _, info = theirs.reset(seed=7)
    expected: dict[int, list[Any]] = {number: [(0.0, False, row_info(info, number))] for number in range(4)}
    for _ in range(14):
        actions = info.get("default_action", np.zeros(4, int))
        _, rewards, terminations, _, info = theirs.step(actions)
        for number in range(4):
            expected[number].append((float(rewards[number]), bool(terminations[number]), row_info(info, number)))
    theirs.close()
    for number in range(4):
        assert gym.utils.env_checker.data_equivalence(steps[number][:15], expected[number], exact=True)
