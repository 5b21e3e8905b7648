"""`CompilerVectorEnv`: many clangs, one event loop, one batch; no worker processes and no threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.order import Turn
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.vector.event_loop import AnySubEnvironment, EventLoop
from mlgo_gym.vector.function_group import function_groups
from mlgo_gym.vector.info_batch import add_absent, batch_infos, decision_infos
from mlgo_gym.vector.sub_environment import SubEnvironment, spread_seeds

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
            and `final_obs` and `final_info` are in the info; for `mlgo_gym.adapters.sb3`. `DISABLED`: the environment
            must be reset with `options={"reset_mask": …}`; TorchRL's `GymWrapper` does.
        batch_size: how many environments `recv()` returns; all by default.
        prefetch: how many episodes each environment starts early, so that their compilers reach their first decision
            while the current episode runs.
        functions_per_compile: with `scope="function"` in environments of inlining, so many consecutive environments
            share a compile: each has the decisions of another function of it, and their episodes end together, each
            with the bytes that its own decisions moved, by their credit (docs/credit.md). One of them has a decision at
            a time, so that they are served by `async_reset()`, `send()` and `recv()`, with a `batch_size` of at most
            `num_envs / functions_per_compile`, which is the default.
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
        functions_per_compile: int = 1,
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
        self.task = self._template.task
        self.metadata = {**self._template.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self._template.render_mode
        self.feature_names = self._template.feature_names
        self.num_envs = num_envs
        if functions_per_compile < 1:
            raise MlgoError(f"functions_per_compile must be at least 1, found {functions_per_compile}")
        self.functions_per_compile = functions_per_compile
        compiles = num_envs // functions_per_compile
        self.batch_size = batch_size or compiles
        self.single_observation_space = self._template.observation_space
        self.single_action_space = self._template.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._discrete = isinstance(self.single_action_space, gym.spaces.Discrete)
        self._sub_envs: Sequence[AnySubEnvironment]
        if functions_per_compile > 1:
            self._sub_envs = function_groups(self._maker, num_envs, functions_per_compile, self.autoreset_mode)
            if self.batch_size > compiles:
                raise MlgoError(
                    f"batch_size must be at most {compiles}: of {functions_per_compile} environments that share a "
                    f"compile one has a decision at a time; found {batch_size}"
                )
        else:
            self._sub_envs = [
                SubEnvironment(self._maker, number, prefetch, self.autoreset_mode, Turn(number, num_envs))
                for number in range(num_envs)
            ]
        self._all_numbers = frozenset(range(num_envs))
        self._delivered = list(range(num_envs))
        self._loop = EventLoop(self._sub_envs)

    @property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        return self._template.corpus

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
        if self.functions_per_compile > 1:
            raise MlgoError(
                "not all environments of a shared compile have a decision at once: begin them with async_reset(), and "
                "recv() them as they have"
            )
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
        self._collect(len(numbers), frozenset(numbers))
        infos = {number: self._sub_envs[number].delivery().info for number in numbers}
        self._delivered = list(range(self.num_envs))
        return self._observe(self._sub_envs), batch_infos(infos, self.num_envs)

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
        numbers = list(range(self.num_envs)) if env_ids is None else self._numbers(env_ids)
        self._begin(numbers, seed, dict(options or {}))

    def _begin(self, numbers: list[int], seed: int | list[int | None] | None, options: dict[str, Any]) -> None:
        self._refuse_if_closed()
        unknown = set(options) - {"module", "function"}
        if unknown:
            raise MlgoError(
                f"reset() knows the options module, function and reset_mask; found {sorted(map(str, unknown))}"
            )
        seeds = spread_seeds(seed, self.num_envs)
        names, functions = (self._per_sub_env(options.get(key), key) for key in ("module", "function"))
        for name, function in zip(names, functions, strict=True):
            self._maker.check_choice(name, function)
        modules = [None if name is None else self.corpus.module(name) for name in names]
        for number in numbers:
            sub_env, sub_env_seed = self._sub_envs[number], seeds[number]
            if sub_env_seed is not None:
                sub_env.seed(sub_env_seed)
            sub_env.begin(modules[number], functions[number])
            self._loop.expect(number)

    def _per_sub_env(self, value: Any, key: str) -> list[Any]:
        if value is None or isinstance(value, str):
            return [value] * self.num_envs
        if len(value) != self.num_envs:
            raise MlgoError(f"option {key!r} needs one value per environment, {self.num_envs}; found {len(value)}")
        return list(value)

    def _numbers(self, env_ids: Sequence[int] | npt.NDArray[np.int64]) -> list[int]:
        numbers: list[int] = np.asarray(env_ids).tolist()
        different = set(numbers)
        if len(different) < len(numbers) or not different <= self._all_numbers:
            raise MlgoError(
                f"env_ids must be different numbers of environments, from 0 to {self.num_envs - 1}; found {numbers}"
            )
        return numbers

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise MlgoError("the vector environment is closed: make another")

    def step(self, actions: Any, env_ids: Sequence[int] | npt.NDArray[np.int64] | None = None) -> Step:
        """Answer the decisions of the environments and return the next: `send()`, then `recv()`.

        Args:
            actions: one action per environment.
            env_ids: whose actions these are; by default those that `recv()` returned last, so all of them where
                `batch_size` is `num_envs`.
        """
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
                is illegal.

        Nothing has been sent when it raises.
        """
        self._refuse_if_closed()
        numbers = self._delivered if env_ids is None else self._numbers(env_ids)
        plain = isinstance(actions, np.ndarray) and actions.ndim == 1 and self._discrete
        each = actions.tolist() if plain else list(iterate(self.action_space, actions))
        if len(each) != len(numbers):
            raise MlgoError(f"{len(numbers)} actions were expected, one per environment; found {len(each)}")
        busy = self._loop.under_way(numbers)
        if busy:
            raise MlgoError(f"environment {busy[0]} is already under way: recv() it before sending again")
        answers = [self._sub_envs[number].encode(action) for number, action in zip(numbers, each, strict=True)]
        for number, answer in zip(numbers, answers, strict=True):
            self._sub_envs[number].act(answer)
            self._loop.expect(number)

    def recv(self) -> Step:
        """Return the first `batch_size` environments that are ready.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool), each with `batch_size` rows, and the
            infos, batched as Gymnasium does; `info["env_id"]` has the numbers of the environments, int64. Where
            `batch_size` is `num_envs` the rows are in the order of the environments.

        Raises:
            MlgoError: fewer environments are under way than `batch_size`: nothing would ever come.
            CompilerError, CorpusError: an environment cannot go on, the one of the error's `env_id`; the others are not
                touched.
        """
        if len(self._loop) < self.batch_size:
            raise MlgoError(
                f"recv() waits for {self.batch_size} environments, and only {len(self._loop)} are under way: send() or "
                "async_reset() first"
            )
        numbers = self._collect(self.batch_size)
        if self.batch_size == self.num_envs:
            numbers.sort()
        rewards = np.zeros(self.batch_size, np.float64)
        terminations = np.zeros(self.batch_size, np.bool_)
        truncations = np.zeros(self.batch_size, np.bool_)
        self._delivered = numbers
        sub_envs = [self._sub_envs[number] for number in numbers]
        if all(sub_env.has_only_asked for sub_env in sub_envs) and not self._template.setup.numeric:
            steppers = [sub_env.stepper for sub_env in sub_envs]
            info = decision_infos(self.task, [stepper.episode for stepper in steppers if stepper is not None])
        else:
            infos: dict[int, dict[str, Any]] = {}
            for row, sub_env in enumerate(sub_envs):
                rewards[row], terminations[row], truncations[row], infos[row] = sub_env.delivery()
            info = batch_infos(infos, self.batch_size)
            add_absent(info, self.task, self.batch_size)
        info["env_id"] = np.array(numbers, np.int64)
        return self._observe(sub_envs), rewards, terminations, truncations, info

    def _observe(self, sub_envs: Iterable[AnySubEnvironment]) -> Observations:
        return self.task.observe_batch([sub_env.decision for sub_env in sub_envs])

    def _collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Return the numbers of environments that are ready; if one has an error raise it, and keep the others."""
        numbers = self._loop.collect(count, among)
        for number in numbers:
            error = self._sub_envs[number].take_error()
            if error is not None:
                self._loop.put_back(other for other in numbers if other != number)
                error.args, error.env_id = (f"environment {number}: {error}",), number
                raise error
        return numbers

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return which actions are legal in each environment, int8 of shape (num_envs, actions).

        All are where nothing is masked, and where no decision waits, for the next action is ignored. None where actions
        are continuous.
        """
        legal = self.task.all_legal()
        if legal is None:
            return None
        masks = np.tile(legal, (self.num_envs, 1))
        for sub_env in self._sub_envs if self.task.masked else ():
            mask = None if sub_env.decision is None else self.task.action_mask(sub_env.decision)
            if mask is not None:
                masks[sub_env.number] = mask
        return masks

    def render(self) -> tuple[Any, ...]:
        """Return the current decision of each environment as `render()` of the single one does."""
        return tuple(self._template.render_step(sub_env.shown) for sub_env in self._sub_envs)

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
        for sub_env in self._sub_envs:
            sub_env.close()
        self._loop.close()
        self._template.close()

    def __del__(self) -> None:
        if hasattr(self, "_loop") and not self.closed:
            self.close()


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
    return inner
