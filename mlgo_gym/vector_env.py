"""`CompilerVectorEnv`: many clangs, one event loop, one batch; no worker processes and no threads."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate
from typing_extensions import Self

from mlgo_gym.compiler.waiting import uninterrupted
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.env import CompilerEnv, JsonSpec
from mlgo_gym.episode.argument_types import read_options, whole_number
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.episode.vector.event_loop import EventLoop
from mlgo_gym.episode.vector.in_process import InProcessVectorEnv, add_absent, batch_infos, plain_infos, spread_seeds
from mlgo_gym.episode.vector.sub_environment import SubEnvironment
from mlgo_gym.errors import MlgoError

_STARTS = ("module", "function", "state")

Observations = Any
Step = tuple[Observations, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]


class CompilerVectorEnv(JsonSpec, InProcessVectorEnv, EzPickle):
    """Several environments of one kind, each with its own clang, served by one event loop in this process.

    `gymnasium.make_vec("mlgo/…", num_envs=N, …)` makes one. It has Gymnasium's `reset()` and `step()`, which take and
    return all environments, and EnvPool's asynchronous interface: `async_reset()`, `send(actions, env_ids)` and
    `recv()`. `recv()` returns the first `batch_size` environments that are ready, with their indices in
    `info["env_id"]`. The environments do not wait for each other.

    `call()`, `get_attr()` and `set_attr()` act on each environment, as those of Gymnasium's `SyncVectorEnv`; methods
    that advance an environment, such as `step`, are refused.

    Args:
        num_envs: Number of environments (≥ 1).
        autoreset_mode: Behaviour after the end of an episode; an `AutoresetMode` or its value. `NEXT_STEP`: the next
            action is ignored and starts an episode. `SAME_STEP`: the step returns the first observation of the next
            episode, with `final_obs` and `final_info` in the info (for `mlgo_gym.integrations.sb3`). `DISABLED`: the
            caller resets with `options={"reset_mask": …}`, as TorchRL's `GymWrapper` does.
        batch_size: Number of environments that `recv()` returns (1 to `num_envs`); `step()` and `reset()` return all.
            Default: all.
        prefetch: Number of episodes that each environment starts early (≥ 0): their compilers reach the first decision
            while the current episode runs.
        max_episode_steps: Number of steps after which an episode is truncated, as by `gymnasium.make` (≥ 1). Default:
            no limit.
        options: Arguments of the single environment.

    A pickled environment has the same arguments, and no episode. A deep copy also has the random generators; it raises
    `MlgoError` while an episode runs.

    Attributes:
        feature_names: Names of the elements of a flat observation.

    Raises:
        MlgoError: an argument is not possible.
        ToolchainError: no compiler is found, or it does not support the task.
    """

    env_type: ClassVar[type[CompilerEnv]]
    """The class of the single environment; subclasses set it."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        batch_size: int | None = None,
        prefetch: int = 1,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        own = {"batch_size": batch_size, "prefetch": prefetch, "max_episode_steps": max_episode_steps}
        EzPickle.__init__(self, num_envs, autoreset_mode=autoreset_mode, **own, **options)
        super().__init__(num_envs, autoreset_mode)
        self.batch_size = self.num_envs if batch_size is None else whole_number("batch_size", batch_size, 1)
        if self.batch_size > self.num_envs:
            raise MlgoError(f"expected batch_size from 1 to num_envs={num_envs}, got {batch_size!r}")
        whole_number("prefetch", prefetch, 0)
        if max_episode_steps is not None:
            whole_number("max_episode_steps", max_episode_steps, 1)
        # The single environment checks the arguments and binds the task; it starts no compiler.
        self._template = self.env_type(**options)
        self._maker = self._template.maker
        self.task = self._template.task
        self.metadata = {**self._template.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self._template.render_mode
        self.feature_names = self._template.feature_names
        self.single_observation_space = self._template.observation_space
        self.single_action_space = self._template.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._discrete = isinstance(self.single_action_space, gym.spaces.Discrete)
        self._sub_envs = [
            SubEnvironment(
                self._maker, env_id, prefetch, self.autoreset_mode, OrderCursor(env_id, num_envs), max_episode_steps
            )
            for env_id in range(num_envs)
        ]
        self._everyone = self._delivered = list(range(num_envs))
        self._loop = EventLoop(self._sub_envs)
        self._put_back: list[int] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        # `EzPickle` takes the attributes of another environment, which then closes them.
        self.__init__(*state["_ezpickle_args"], **state["_ezpickle_kwargs"])  # type: ignore[misc] # a new object

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a vector environment with the same arguments and random generators."""
        if any(sub_env.driver is not None for sub_env in self._sub_envs):
            raise MlgoError("expected no running episode for a copy, got some; copy it before reset()")
        copied: Self = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(self.__getstate__())
        for own, other in zip(copied._sub_envs, self._sub_envs, strict=True):
            own.np_random, own.np_random_seed = copy.deepcopy(other.np_random), other.np_random_seed
            own.cursor = other.cursor.copy()
        copied.spec = self.spec
        return copied

    @property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and if need be fetched and compiled, at first use."""
        return self._template.corpus

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Start an episode in every environment, or in those of a mask, and return the first decisions.

        Args:
            seed: Seeds the environments with `seed`, `seed + 1`, …; or a list with one seed each.
            options: `module`: the name of a module for all, or a list with one name (or None) per environment.
                `function`, `state`: in the same form. `reset_mask`: booleans of shape (num_envs,).

        Raises:
            CorpusError: a module is unknown or has no decision.
            CompilerError: the compiler fails on a named module.
        """
        chosen = read_options(options, (*_STARTS, "reset_mask"))
        env_ids = self._reset_mask(chosen)
        self._begin(env_ids, seed, chosen)
        with uninterrupted():
            self._collect(len(env_ids), frozenset(env_ids))
        infos = {env_id: self._sub_envs[env_id].step_result()[3] for env_id in env_ids}
        self._delivered = self._everyone
        decisions = [sub_env.shown_decision for sub_env in self._sub_envs]
        return self.task.observe_batch(decisions), batch_infos(infos, self.num_envs)

    def set_module_order(self, order: str | Mapping[str, float]) -> None:
        """Change the order of the modules, as `module_order`, from the next episode of each environment on.

        Prefetched episodes are started again. `call_some()` changes the order of some environments.
        """
        self._refuse_if_closed()
        changed = self._template.setup.make_order(order)
        for sub_env in self._sub_envs:
            sub_env.cursor.follow(changed)

    def async_reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
        env_ids: Sequence[int] | npt.NDArray[np.int64] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        """Start an episode in every environment, or in those of `env_ids` or of a mask of booleans.

        `recv()` returns each when it is ready. The other arguments are those of `reset()`, without `reset_mask`.
        """
        env_ids = self._chosen(env_ids, mask, self._everyone)
        self._begin(env_ids, seed, read_options(options, _STARTS))

    def _begin(self, env_ids: list[int], seed: int | list[int | None] | None, options: dict[str, Any]) -> None:
        self._refuse_if_closed()
        seeds = spread_seeds(seed, self.num_envs)
        values = {key: self._per_sub_env(value, key) for key, value in options.items()}
        starts = [
            self._maker.read_start({key: row[env_id] for key, row in values.items()}, self.env_type.__name__)
            for env_id in range(self.num_envs)
        ]
        with uninterrupted():
            for env_id in env_ids:
                sub_env, sub_env_seed = self._sub_envs[env_id], seeds[env_id]
                if sub_env_seed is not None:
                    sub_env.seed(sub_env_seed)
                sub_env.begin(starts[env_id])
                self._loop.expect(env_id)

    def _per_sub_env(self, value: Any, key: str) -> list[Any]:
        if value is None or isinstance(value, (str, EpisodeState, Mapping)):
            return [value] * self.num_envs
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise MlgoError(f"expected option {key!r} as a name or a list with one per environment, got {value!r}")
        if len(value) != self.num_envs:
            raise MlgoError(
                f"expected option {key!r} with {self.num_envs} values, one per environment, got {len(value)}"
            )
        return list(value)

    def _chosen(self, env_ids: Any, mask: Any, default: list[int]) -> list[int]:
        """Return the indices of the environments that a call chooses, by index or by a mask."""
        if mask is not None and env_ids is not None:
            raise MlgoError("expected env_ids or mask, got both; omit one")
        if mask is not None:
            return self._masked("mask", mask)
        return default if env_ids is None else self._checked_ids(env_ids)

    def _checked_ids(self, env_ids: Sequence[int] | npt.NDArray[np.int64]) -> list[int]:
        indices = np.asarray(env_ids)
        if indices.dtype == np.bool_:
            raise MlgoError(f"expected env_ids as indices, got booleans {indices.tolist()}; pass mask=…")
        chosen: list[int] = indices.tolist()
        is_list = indices.ndim == 1 and (indices.dtype.kind in "iu" or not chosen)
        if not is_list or len(set(chosen)) < len(chosen) or not set(self._everyone).issuperset(chosen):
            raise MlgoError(f"expected env_ids as distinct indices from 0 to {self.num_envs - 1}, got {chosen}")
        return chosen

    def step(self, actions: Any) -> Step:
        """Answer the decisions of all environments and return the next, whatever `batch_size` is.

        Args:
            actions: One action per environment.

        Raises:
            MlgoError: an environment is running since `send()`.
            ActionError: an episode is over and `autoreset_mode` is DISABLED, or an action is illegal with `strict`.
            CompilerError, CorpusError: the environment of the error's `env_id` failed; `recv()` returns the others.
        """
        with uninterrupted():
            self._send(actions, self._everyone)
            env_ids = self._collect(self.num_envs)
        return self._results(env_ids)

    def send(
        self,
        actions: Any,
        env_ids: Sequence[int] | npt.NDArray[np.int64] | None = None,
        *,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        """Answer the decisions of some environments, by default those of the last `recv()`, and return at once.

        Args:
            actions: One action per chosen environment, in the order of `env_ids`. With a mask one action per
                environment, as for `step()`; those outside the mask are ignored.
            env_ids: Indices of the environments.
            mask: Booleans of shape (num_envs,) with at least one True, instead of `env_ids`.

        Raises:
            MlgoError: an environment is already running, or an index does not exist.
            ActionError: an episode is over and `autoreset_mode` is DISABLED, or an action is illegal with `strict`.

        No action is sent if it raises.
        """
        env_ids = self._chosen(env_ids, mask, self._delivered)
        with uninterrupted():
            self._send(actions, env_ids, masked=mask is not None)

    def _send(self, actions: Any, env_ids: list[int], *, masked: bool = False) -> None:
        self._refuse_if_closed()
        plain = isinstance(actions, np.ndarray) and actions.ndim == 1 and self._discrete
        batch = actions.tolist() if plain else list(iterate(self.action_space, actions))
        expected = self.num_envs if masked else len(env_ids)
        if len(batch) != expected:
            raise MlgoError(f"expected {expected} actions, one per environment, got {len(batch)}")
        batch = [batch[env_id] for env_id in env_ids] if masked else batch
        busy = self._loop.pending(env_ids)
        if busy:
            raise MlgoError(f"expected a ready environment, got {busy[0]}, which is running; recv() it first")
        answers = [self._sub_envs[env_id].encode(action) for env_id, action in zip(env_ids, batch, strict=True)]
        for env_id, answer in zip(env_ids, answers, strict=True):
            self._sub_envs[env_id].act(answer)
            self._loop.expect(env_id)

    def recv(self) -> Step:
        """Return the first `batch_size` environments that are ready.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool), each with `batch_size` rows, and infos
            in Gymnasium's batched form. `info["env_id"]` has the indices of the environments, int64 of shape
            (batch_size,). With `batch_size=num_envs` the rows are in the order of the environments. After an error of
            one environment there are fewer rows if fewer environments are left.

        Raises:
            MlgoError: fewer than `batch_size` environments are running.
            CompilerError, CorpusError: the environment of the error's `env_id` failed; the others keep running. It
                waits for `reset()` with a mask or `async_reset()`; with NEXT_STEP the next action starts an episode.
        """
        self._refuse_if_closed()
        count = min(self.batch_size, len(self._loop))
        if count < self.batch_size and not self._loop.pending(self._put_back):
            raise MlgoError(
                f"expected {self.batch_size} running environments for recv(), got {len(self._loop)}; send() or "
                "async_reset() first"
            )
        with uninterrupted():
            env_ids = self._collect(count)
        result = self._results(env_ids)
        result[4]["env_id"] = np.array(self._delivered, np.int64)
        return result

    def _results(self, env_ids: list[int]) -> Step:
        if (count := len(env_ids)) == self.num_envs:
            env_ids.sort()
        self._delivered = env_ids
        rewards, terminations, truncations = np.zeros(count), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        sub_envs = [self._sub_envs[env_id] for env_id in env_ids]
        decisions = [sub_env.shown_decision for sub_env in sub_envs]
        plain = [sub_env.episode for sub_env in sub_envs if sub_env.has_plain_info and sub_env.episode]
        if len(plain) == count:
            info = plain_infos(self.task, plain)
        else:
            infos: dict[int, dict[str, Any]] = {}
            for row, sub_env in enumerate(sub_envs):
                rewards[row], terminations[row], truncations[row], infos[row] = sub_env.step_result()
            info = batch_infos(infos, count)
            add_absent(info, self.task, count)
        return self.task.observe_batch(decisions), rewards, terminations, truncations, info

    def _collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Return the indices of ready environments; raise the error of a failed one and keep the others."""
        env_ids = self._loop.collect(count, among)
        for env_id in env_ids:
            error = self._sub_envs[env_id].take_error()
            if error is not None:
                self._put_back = [ready for ready in env_ids if ready != env_id]
                self._loop.put_back(self._put_back)
                error.args, error.env_id = (f"environment {env_id}: {error}",), env_id
                raise error
        return env_ids

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return 1 for each legal action, int8 of shape (num_envs, actions); None if actions are continuous.

        All ones if actions are not masked, and where no decision is pending, since the next action is ignored there.
        """
        legal = self.task.all_legal()
        if legal is None:
            return None
        masks = np.tile(legal, (self.num_envs, 1))
        for sub_env in self._sub_envs if self.task.masked else ():
            mask = None if sub_env.decision is None else self.task.action_mask(sub_env.decision)
            if mask is not None:
                masks[sub_env.env_id] = mask
        return masks

    def render(self) -> tuple[Any, ...]:
        """Return the rendering of each environment, as `render()` of the single environment."""
        return self.call("render")

    def _make_view(self) -> CompilerEnv:
        # copy.copy() would make an environment that probes the compiler again, by EzPickle.
        view = object.__new__(self.env_type)
        spaces = {name: copy.deepcopy(getattr(self._template, name)) for name in ("observation_space", "action_space")}
        view.__dict__.update(self._template.__dict__, **spaces)
        return view

    def _update_view(self, env_id: int, view: gym.Env[Any, Any]) -> None:
        sub_env = self._sub_envs[env_id]
        view.__dict__.update(
            _episode=sub_env.shown_episode,
            _np_random=sub_env.np_random,
            _np_random_seed=sub_env.np_random_seed,
            _cursor=sub_env.cursor,
        )

    def _set_random(self, env_id: int, generator: np.random.Generator) -> None:
        self._sub_envs[env_id].np_random, self._sub_envs[env_id].np_random_seed = generator, -1

    @uninterrupted()
    def close_extras(self, **_: Any) -> None:
        """End every compile."""
        for sub_env in self._sub_envs:
            sub_env.close()
        self._loop.close()
        self._template.close()

    def __del__(self) -> None:
        if hasattr(self, "_loop") and not self.closed:
            self.close()


def as_vector(env: gym.vector.VectorEnv[Any, Any, Any]) -> CompilerVectorEnv:
    """Return the vector environment inside any wrappers; raise `MlgoError` if it is not one of this package."""
    inner = env.unwrapped
    if not isinstance(inner, CompilerVectorEnv):
        raise MlgoError(f"expected a CompilerVectorEnv, got {type(inner).__name__}; make one with gymnasium.make_vec")
    return inner
