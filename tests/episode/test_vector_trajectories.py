"""A vector environment equals Gymnasium's `SyncVectorEnv` of single environments, step by step."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mlgo_gym.testing import assert_equal_results, check_vector_environment
from tests.fakes.stepping import EVICT, INLINE, make, make_sync, row_info

pytestmark = pytest.mark.usefixtures("nothing_is_left")

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
