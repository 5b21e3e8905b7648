"""Checks that an environment keeps the rules of Gymnasium, Stable-Baselines3 and this package, alone and in vectors."""

import importlib
import importlib.util
import pickle
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

_MAX_STEPS = 10_000
"""Number of steps after which an episode of random actions counts as endless."""


def check_environment(env: str | gym.Env[Any, Any], *, check_refusals: bool = True, **arguments: Any) -> None:
    """Check an environment, also one of another package or in wrappers.

    - Gymnasium's `check_env` passes, and that of Stable-Baselines3 where it is installed and knows the spaces.
    - Equal seeds and actions give equal episodes, whose observations are in the space and whose rewards are finite.
    - A step without a started episode, and a reset with an unknown option, raise; the next reset works.
    - A pickled copy starts the same episode. An environment that cannot be pickled skips this.

    Args:
        env: An id, or an environment, which stays open.
        check_refusals: Whether wrong calls must raise. Gymnasium's own environments accept unknown options, and steps
            after the end.
        arguments: Arguments of the environment of an id.

    Raises:
        AssertionError: A check fails; the text says which.
    """
    made = gym.make(env, disable_env_checker=True, **arguments) if isinstance(env, str) else env
    try:
        if check_refusals:
            _check_refusals(made)
        with warnings.catch_warnings():
            # They recommend other spaces, and raw environments.
            warnings.simplefilter("ignore")
            # They step with random actions of the space, which a mask may forbid.
            check_env(_Legal(made), skip_render_check=True, skip_close_check=True)
            _check_with_sb3(_Legal(made))
        first = _episode(made)
        _expect_equal(first, _episode(made), "a second episode of the same seed and actions")
        _check_pickle(made, first[0])
    finally:
        if isinstance(env, str):
            made.close()


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _expect_equal(actual: Any, expected: Any, what: str) -> None:
    _expect(data_equivalence(actual, expected, exact=True), f"expected {what} as {expected}, got {actual}")


def _check_refusals(env: gym.Env[Any, Any]) -> None:
    """Check that wrong calls raise and leave the environment usable."""
    try:
        env.reset(options={"no such option": 1})
    except Exception:  # noqa: BLE001 - each package has its own errors
        env.reset(seed=0)
    else:
        raise AssertionError("expected an error of reset() for the option 'no such option', got none")
    _finish(env)
    try:
        env.step(env.action_space.sample())
    except Exception:  # noqa: BLE001 - as above
        return
    raise AssertionError("expected an error of step() after the end of an episode, got none")


def _mask(env: gym.Env[Any, Any]) -> Any:
    """Return the mask of legal actions for `sample()`; None if every action of the space is legal."""
    if not env.has_wrapper_attr("action_masks") or not isinstance(env.action_space, gym.spaces.Discrete):
        return None
    return env.get_wrapper_attr("action_masks")()


def _finish(env: gym.Env[Any, Any]) -> list[tuple[Any, ...]]:
    """Take random legal actions to the end of the episode, and return the results of the steps."""
    steps: list[tuple[Any, ...]] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        _expect(len(steps) < _MAX_STEPS, f"expected the end of an episode within {_MAX_STEPS} steps, got none")
        steps.append(env.step(env.action_space.sample(_mask(env))))
        observation, reward = steps[-1][:2]
        _expect(env.observation_space.contains(observation), f"expected an observation of the space, got {observation}")
        _expect(np.isfinite(float(reward)), f"expected a finite reward, got {reward}")
    return steps


def _episode(env: gym.Env[Any, Any]) -> list[tuple[Any, ...]]:
    env.action_space.seed(1)
    return [env.reset(seed=1), *_finish(env)]


def _check_with_sb3(env: gym.Env[Any, Any]) -> None:
    if importlib.util.find_spec("stable_baselines3") is None:
        return
    checker: Any = importlib.import_module("stable_baselines3.common.env_checker")
    checker.check_env(env, warn=False, skip_render_check=True)


class _Legal(gym.Wrapper[Any, Any, Any, Any]):
    """Takes the first legal action instead of an illegal one."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        mask = _mask(self.env)
        return self.env.step(action if mask is None or mask[int(action)] else int(mask.argmax()))


def _check_pickle(env: gym.Env[Any, Any], first: tuple[Any, ...]) -> None:
    try:
        data = pickle.dumps(env)
    except Exception:  # noqa: BLE001 - wrappers with local functions, for instance
        return
    copied = pickle.loads(data)  # noqa: S301 - of this process
    try:
        _expect_equal(copied.reset(seed=1), first, "the first decision of a pickled copy")
    finally:
        copied.close()


def check_vector_environment(
    env_id: str,
    *,
    num_envs: int = 3,
    steps: int = 24,
    modes: Sequence[AutoresetMode | str] = tuple(AutoresetMode),
    vector_arguments: dict[str, Any] | None = None,
    **arguments: Any,
) -> int:
    """Check that a vector environment equals Gymnasium's `SyncVectorEnv` of its single environments, step by step.

    Spaces, observations, rewards, ends, infos, renderings, attributes, calls and seeds are compared. Ours may have
    `default_action` and `action_mask` in the info where all episodes are over.

    Args:
        env_id: Id of an environment with a vector entry point.
        num_envs: Number of environments (≥ 1).
        steps: Number of steps in each mode (≥ 1).
        modes: Autoreset modes.
        vector_arguments: Further arguments of the vector environment alone, such as `prefetch`.
        arguments: Arguments of the environment.

    Returns:
        The number of episodes that ended.

    Raises:
        AssertionError: They differ; the text has both values.
    """
    ended = 0
    for mode in map(AutoresetMode, modes):
        ours = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode=mode, **{**arguments, **(vector_arguments or {})})
        theirs = SyncVectorEnv(
            [lambda: gym.make(env_id, disable_env_checker=True, **arguments)] * num_envs, autoreset_mode=mode
        )
        try:
            _expect(not isinstance(ours, SyncVectorEnv), f"expected a vector entry point of {env_id}, got none")
            ended += _compare(ours, theirs, steps)
        finally:
            ours.close()
            theirs.close()
    return ended


def _compare(ours: Any, theirs: SyncVectorEnv, steps: int) -> int:
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        _expect(getattr(ours, name) == getattr(theirs, name), f"expected an equal {name}, got {getattr(ours, name)}")
    mode = theirs.metadata["autoreset_mode"]
    _expect(ours.metadata["autoreset_mode"] is mode, f"expected autoreset_mode {mode} in the metadata")
    ended = 0
    for number, (actual, expected) in enumerate(zip(play(ours, steps), play(theirs, steps), strict=True)):
        assert_equal_results(actual, expected, f"{mode.value}, result {number}")
        ended += int((expected[2] | expected[3]).sum()) if len(expected) == 5 else 0
        _expect_equal(ours.render(), theirs.render(), f"{mode.value}, rendering {number}")
        if ours.single_action_space.__class__ is gym.spaces.Discrete:
            _expect_equal(ours.call("action_masks"), theirs.call("action_masks"), f"action masks {number}")
        if number in (0, steps):
            _expect_equal(ours.np_random_seed, theirs.np_random_seed, "the seeds of the environments")
            states = [
                [generator.bit_generator.state for generator in side.call("np_random")] for side in (ours, theirs)
            ]
            _expect_equal(states[0], states[1], "the states of the random generators")
    return ended


def play(envs: Any, steps: int, seed: int = 3) -> Iterator[tuple[Any, ...]]:
    """Yield the results of `reset()` and of each `step()`; half of the actions are default actions, half are random.

    With DISABLED autoreset, finished environments are reset. Random actions are legal where there are masks.
    """
    envs.action_space.seed(seed)
    observations, info = envs.reset(seed=seed)
    yield observations, info
    over = np.zeros(envs.num_envs, np.bool_)
    for step in range(steps):
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            observations, info = envs.reset(options={"reset_mask": over.copy()})
            yield observations, info
        actions = envs.action_space.sample()
        if isinstance(envs.single_action_space, gym.spaces.Discrete):
            masks = np.stack(envs.call("action_masks"))
            illegal = masks[np.arange(len(masks)), actions] == 0
            actions[illegal] = masks.argmax(axis=1)[illegal]
        if step % 2 and "default_action" in info:
            present = info["_default_action"]
            actions[present] = info["default_action"][present]
        observations, rewards, terminations, truncations, info = envs.step(actions)
        over = terminations | truncations
        yield observations, rewards, terminations, truncations, info


def assert_equal_results(ours: tuple[Any, ...], theirs: tuple[Any, ...], what: str = "the result") -> None:
    """Raise `AssertionError` unless the results of two vector environments are equal, but for keys of ours alone."""
    *values, info = ours
    *expected, expected_info = theirs
    _expect_equal(tuple(values), tuple(expected), what)
    info = {key: value for key, value in info.items() if key != "env_id"}
    for key in ("default_action", "action_mask"):
        if key in info and not info[f"_{key}"].any() and key not in expected_info:
            del info[key], info[f"_{key}"]
    _expect_equal(info, expected_info, f"{what}, the info")
