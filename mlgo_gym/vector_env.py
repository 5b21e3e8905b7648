"""`CompilerVectorEnv`: many clangs, one event loop, one batch; no worker processes and no threads."""

from __future__ import annotations

import contextlib
import select
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, create_empty_array, iterate

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.info_batch import batch_infos
from mlgo_gym.lane import Lane, spread_seeds
from mlgo_gym.session import Session

Observations = Any
Step = tuple[Observations, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]


class CompilerVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """Several environments of one kind, each with its own clang, served by one event loop in this process.

    `gymnasium.make_vec("mlgo/…", num_envs=N, …)` makes one. Beside Gymnasium's `reset()` and `step()` it has EnvPool's
    asynchronous interface: `async_reset()`, `send(actions, env_ids)` and `recv()`, which returns the first `batch_size`
    environments that are ready, with their numbers in `info["env_id"]`. While one environment's clang computes, the
    others go on.

    Args:
        num_envs: how many environments.
        autoreset_mode: what happens after an episode's end; an `AutoresetMode` or its value. `NEXT_STEP`: the next
            action is ignored and begins an episode. `SAME_STEP`: the next episode's first observation comes at once,
            and `final_obs` and `final_info` are in the info. `DISABLED`: the environment must be reset with
            `options={"reset_mask": …}`.
        batch_size: how many environments `recv()` returns; all by default.
        prefetch: how many episodes each environment starts early, so that their compilers reach their first decision
            while the current episode runs.
        options: the arguments of the single environment.

    Attributes:
        feature_names: the name of each element of a flat observation.

    Raises:
        MlgoError: an argument is none of those that are possible.
        ToolchainError: no usable compiler, or one that cannot do this task.
    """

    env_type: ClassVar[type[CompilerEnv]]
    """The single environment; its subclasses here set it."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        batch_size: int | None = None,
        prefetch: int = 1,
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise MlgoError(f"num_envs must be at least 1, found {num_envs}")
        if batch_size is not None and not 1 <= batch_size <= num_envs:
            raise MlgoError(f"batch_size must be between 1 and num_envs={num_envs}, found {batch_size}")
        if prefetch < 0:
            raise MlgoError(f"prefetch must be at least 0, found {prefetch}")
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            modes = [mode.value for mode in AutoresetMode]
            raise MlgoError(f"autoreset_mode must be one of {modes}, found {autoreset_mode!r}") from None
        # The single environment checks the arguments and binds the task; it starts no compiler.
        self._template = self.env_type(**options)
        self._maker = self._template.maker
        self.task = self._maker.task
        self.metadata = {**self._template.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self._template.render_mode
        self.feature_names = self._template.feature_names
        self.num_envs = num_envs
        self.batch_size = batch_size or num_envs
        self.single_observation_space = self._template.observation_space
        self.single_action_space = self._template.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch = create_empty_array(self.single_observation_space, self.batch_size, fn=np.zeros)
        self._everything = (
            self._batch
            if self.batch_size == num_envs
            else create_empty_array(self.single_observation_space, num_envs, fn=np.zeros)
        )
        self._lanes = [Lane(self._maker, number, prefetch) for number in range(num_envs)]
        self._epoll = select.epoll()
        self._watching: dict[int, int] = {}
        self._watched: list[Session | None] = [None] * num_envs
        self._outstanding: set[int] = set()
        self._finished: deque[int] = deque()
        self._ended: dict[int, tuple[float, bool, dict[str, Any]]] = {}
        self._delivered: npt.NDArray[np.int64] = np.arange(self.batch_size)

    @property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        return self._maker.corpus

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask, and return the first decisions.

        Args:
            seed: seeds the environments with `seed`, `seed + 1`, …; or one seed each.
            options: `module`: the name of a module for all, or a list with one name (or None) per environment;
                `function` likewise; `reset_mask`: booleans, shape (num_envs,).

        Raises:
            CorpusError: a module is unknown or has no decision.
            CompilerError: the compiler fails on a module that was asked for.
        """
        chosen = dict(options or {})
        mask = chosen.pop("reset_mask", None)
        if mask is None:
            numbers = list(range(self.num_envs))
        else:
            mask = np.asarray(mask)
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise MlgoError(
                    f"reset_mask must be booleans of shape ({self.num_envs},), at least one of them True; found {mask}"
                )
            numbers = np.flatnonzero(mask).tolist()
        self._begin(numbers, seed, chosen)
        infos: dict[int, dict[str, Any]] = {}
        for number in self._without_error(self._collect(len(numbers), set(numbers))):
            infos[number] = self._deliver(number, self._everything, number)[3]
        return copied(self._everything), batch_infos(infos, self.num_envs)

    def async_reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
        env_ids: Sequence[int] | None = None,
    ) -> None:
        """Begin an episode in every environment, or in those of `env_ids`; `recv()` returns them as they are ready.

        Args:
            seed: as for `reset()`.
            options: `module` and `function`, as for `reset()`.
            env_ids: which environments.
        """
        numbers = list(range(self.num_envs)) if env_ids is None else [int(number) for number in env_ids]
        self._begin(numbers, seed, dict(options or {}))

    def _begin(self, numbers: list[int], seed: int | list[int | None] | None, options: dict[str, Any]) -> None:
        unknown = set(options) - {"module", "function"}
        if unknown:
            raise MlgoError(
                f"reset() knows the options module, function and reset_mask; found {sorted(map(str, unknown))}"
            )
        seeds = spread_seeds(seed, self.num_envs)
        names, functions = (self._per_lane(options.get(key), key) for key in ("module", "function"))
        modules = [None if name is None else self.corpus.module(name) for name in names]
        for number in numbers:
            self._check_number(number)
            lane = self._lanes[number]
            if seed is not None:
                lane.seed(seeds[number])
            self._ended.pop(number, None)
            with contextlib.suppress(ValueError):
                self._finished.remove(number)
            lane.begin(modules[number], functions[number])
            self._expect(number)

    def _per_lane(self, value: Any, key: str) -> list[Any]:
        if value is None or isinstance(value, str):
            return [value] * self.num_envs
        if len(value) != self.num_envs:
            raise MlgoError(f"option {key!r} needs one value per environment, {self.num_envs}; found {len(value)}")
        return list(value)

    def _check_number(self, number: int) -> None:
        if not 0 <= number < self.num_envs:
            raise MlgoError(f"environments are numbered from 0 to {self.num_envs - 1}, found {number}")

    def step(self, actions: Any, env_ids: Sequence[int] | npt.NDArray[np.int64] | None = None) -> Step:
        """Answer the decisions of the environments and return the next: `send()`, then `recv()`.

        Args:
            actions: one action per environment.
            env_ids: whose actions these are; by default those that `recv()` returned last, so all of them where
                `batch_size` is `num_envs`.
        """
        if env_ids is None:
            env_ids = self._delivered
        self.send(actions, env_ids)
        return self.recv()

    def send(self, actions: Any, env_ids: Sequence[int] | npt.NDArray[np.int64] | None = None) -> None:
        """Answer the decisions of some environments, and return at once.

        Args:
            actions: one action for each of `env_ids`.
            env_ids: the numbers of the environments; by default those that `recv()` returned last.

        Raises:
            MlgoError: an environment is already under way, or a number is none.
            ActionError: an environment's episode is over and `autoreset_mode` is DISABLED; or, with `strict`, an action
                is illegal. The environments before it have been answered.
        """
        numbers = [int(number) for number in (self._delivered if env_ids is None else env_ids)]
        each = list(iterate(batch_space(self.single_action_space, len(numbers)), actions))
        if len(each) != len(numbers):
            raise MlgoError(f"{len(numbers)} actions were expected, one per environment; found {len(each)}")
        for number, action in zip(numbers, each, strict=True):
            self._check_number(number)
            if number in self._outstanding or number in self._finished:
                raise MlgoError(f"environment {number} is already under way: recv() it before sending again")
            lane = self._lanes[number]
            if lane.over and self.autoreset_mode is AutoresetMode.NEXT_STEP and number in self._ended:
                self._ended.pop(number)
                lane.begin()
            else:
                lane.act(action)
            self._expect(number)

    def recv(self) -> Step:
        """Return the first `batch_size` environments that are ready.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool), each with `batch_size` rows, and the
            infos, batched as Gymnasium does; `info["env_id"]` has the numbers of the environments, int64. Where
            `batch_size` is `num_envs` the rows are in the order of the environments.

        Raises:
            MlgoError: fewer environments are under way than `batch_size`: nothing would ever come.
            CompilerError, CorpusError: an environment cannot go on; the others are not touched.
        """
        if len(self._outstanding) + len(self._finished) < self.batch_size:
            raise MlgoError(
                f"recv() waits for {self.batch_size} environments, and only "
                f"{len(self._outstanding) + len(self._finished)} are under way: send() or async_reset() first"
            )
        numbers = self._without_error(self._collect(self.batch_size))
        if self.batch_size == self.num_envs:
            numbers.sort()
        rewards = np.zeros(self.batch_size, np.float64)
        terminations = np.zeros(self.batch_size, np.bool_)
        truncations = np.zeros(self.batch_size, np.bool_)
        infos: dict[int, dict[str, Any]] = {}
        for row, number in enumerate(numbers):
            rewards[row], terminations[row], truncations[row], infos[row] = self._deliver(number, self._batch, row)
        self._delivered = np.array(numbers, np.int64)
        info = batch_infos(infos, self.batch_size)
        info["env_id"] = self._delivered.copy()
        return copied(self._batch), rewards, terminations, truncations, info

    def _expect(self, number: int) -> None:
        """An environment is under way: watch its compiler, or note that it is ready already."""
        lane = self._lanes[number]
        self._outstanding.add(number)
        self._watch(number)
        if lane.ready:
            self._ready(number)

    def _watch(self, number: int) -> None:
        session = self._lanes[number].session
        if session is self._watched[number] or session is None:
            return
        self._watched[number] = session
        for descriptor in session.descriptors():
            # Closed descriptors leave the set by themselves; a number may have been used before.
            try:
                self._epoll.register(descriptor, select.EPOLLIN)
            except FileExistsError:
                self._epoll.modify(descriptor, select.EPOLLIN)
            self._watching[descriptor] = number

    def _ready(self, number: int) -> None:
        """An environment has something to deliver; with SAME_STEP an episode's end is followed by a beginning."""
        lane = self._lanes[number]
        if lane.over and lane.error is None:
            if number not in self._ended:
                self._ended[number] = (lane.reward, lane.truncated, self._noted(lane, lane.info))
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                lane.begin()
                self._watch(number)
                if not lane.ready:
                    return
        self._outstanding.discard(number)
        self._finished.append(number)

    @staticmethod
    def _noted(lane: Lane, info: dict[str, Any]) -> dict[str, Any]:
        if lane.illegal:
            info["illegal_action"] = True
            lane.illegal = False
        return info

    def _collect(self, count: int, among: set[int] | None = None) -> list[int]:
        """Serve the compilers until `count` environments are ready, and take these."""
        while True:
            ready = [number for number in self._finished if among is None or number in among]
            if len(ready) >= count:
                taken = ready[:count]
                for number in taken:
                    self._finished.remove(number)
                return taken
            self._serve()

    def _serve(self) -> None:
        """Wait for compilers to do something, or to be silent for too long, and go on with those."""
        now = time.monotonic()
        first = min(self._lanes[number].deadline for number in self._outstanding)
        events = self._epoll.poll(max(first - now, 0.0))
        for number in {self._watching[descriptor] for descriptor, _ in events}:
            if number in self._outstanding:
                self._advance(number)
        self._ignore(events)
        if time.monotonic() >= first:
            self._time_out()

    def _advance(self, number: int) -> None:
        lane = self._lanes[number]
        ready = lane.poll()
        self._watch(number)
        if ready:
            self._ready(number)

    def _ignore(self, events: list[tuple[int, int]]) -> None:
        """What a compiler does while its decision waits for an action must not wake every wait for the others."""
        for descriptor, _ in events:
            number = self._watching[descriptor]
            if number not in self._outstanding:
                with contextlib.suppress(OSError):
                    self._epoll.unregister(descriptor)
                self._watched[number] = None

    def _time_out(self) -> None:
        now = time.monotonic()
        for number in list(self._outstanding):
            lane = self._lanes[number]
            if lane.deadline <= now:
                lane.time_out()
                self._watch(number)
                if lane.ready:
                    self._ready(number)

    def _without_error(self, numbers: list[int]) -> list[int]:
        """Return the numbers if none of these environments has an error; else raise it, and keep the others ready."""
        for number in numbers:
            error = self._lanes[number].error
            if error is not None:
                self._finished.extendleft(other for other in reversed(numbers) if other != number)
                self._ended[number] = (0.0, True, {})
                self._lanes[number].error = None
                raise error
        return numbers

    def _deliver(self, number: int, batch: Any, row: int) -> tuple[float, bool, bool, dict[str, Any]]:
        """Write an environment's observation into a row, and return reward, terminated, truncated and info."""
        lane = self._lanes[number]
        ended = self._ended.get(number)
        if lane.decision is None:
            assert ended is not None
            reward, truncated, info = ended
            self.task.write(self.task.final_observation(), batch, row)
            return reward, not truncated, truncated, info
        assert lane.episode is not None
        info = self._maker.decision_info(lane.episode)
        self.task.observe_into(lane.decision, batch, row)
        if lane.episode.decisions == 0:
            info = lane.first_info(info)
        if ended is None:
            return 0.0, False, False, self._noted(lane, info)
        reward, truncated, final_info = self._ended.pop(number)
        info["final_obs"], info["final_info"] = self.task.final_observation(), final_info
        return reward, not truncated, truncated, info

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return which actions are legal in each environment, int8 of shape (num_envs, actions); None: all."""
        rows = []
        for lane in self._lanes:
            mask = self.task.action_mask(lane.decision) if lane.decision is not None else None
            rows.append(mask)
        known = [mask for mask in rows if mask is not None]
        if not known:
            return None
        return np.stack([np.ones_like(known[0]) if mask is None else mask for mask in rows])

    def render(self) -> tuple[str | None, ...]:
        """Return the current decision of each environment for a person to read, with `render_mode="ansi"`."""
        return tuple(self._template.render_episode(lane.episode) for lane in self._lanes)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the single environment, once per environment."""
        return (getattr(self._template, name),) * self.num_envs

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each environment, or what calling it gives: `action_masks` and `render`, say."""
        if name in ("action_masks", "render"):
            result = getattr(self, name)()
            return (None,) * self.num_envs if result is None else tuple(result)
        value = getattr(self._template, name)
        return tuple(value(*args, **kwargs) if callable(value) else value for _ in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """End every compile."""
        del kwargs
        for lane in self._lanes:
            lane.close()
        if not self._epoll.closed:
            self._epoll.close()
        self._template.close()

    def __del__(self) -> None:
        if hasattr(self, "_lanes") and not self.closed:
            self.close()


def copied(batch: Any) -> Any:
    """Return a copy of a batch of observations: an array, or a dictionary of batches."""
    if isinstance(batch, dict):
        return {key: copied(part) for key, part in batch.items()}
    return batch.copy()


def as_vector(env: gym.vector.VectorEnv[Any, Any, Any]) -> CompilerVectorEnv:
    """Return the vector environment below any wrappers.

    Raises:
        MlgoError: it is none of this package's.
    """
    inner = env.unwrapped
    if not isinstance(inner, CompilerVectorEnv):
        raise MlgoError(
            f"a CompilerVectorEnv was expected, as gymnasium.make_vec makes one; found {type(inner).__name__}"
        )
    return cast("CompilerVectorEnv", inner)
