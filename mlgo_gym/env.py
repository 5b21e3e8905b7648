"""`CompilerEnv(gymnasium.Env)`: an episode is one compile, an observation one decision; the same for every task."""

import copy
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import EzPickle
from typing_extensions import Self

from mlgo_gym.cache import key_of
from mlgo_gym.compiler.coroutine import run, run_blocking
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.decision_code import CallGraph, DecisionCode, DecisionIR
from mlgo_gym.compiler.waiting import uninterrupted
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.argument_types import keyword_parameters, read_options, whole_number
from mlgo_gym.episode.counterfactual import Counterfactual, counterfactuals
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.episode.options import RENDER_MODES, EnvironmentOptions
from mlgo_gym.episode.setup import Setup
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.errors import ActionError, MlgoError, NoEpisodeError
from mlgo_gym.tasks.infos import render_end, render_text
from mlgo_gym.tasks.task import Task


class JsonSpec:
    """An environment whose `spec` has the name of a `Corpus` that `open_corpus()` returned, so that it is JSON."""

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """Specification with which Gymnasium made the environment."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        corpus = None if spec is None else spec.kwargs.get("corpus")
        if spec is not None and isinstance(corpus, Corpus) and corpus.specification is not None:
            spec.kwargs["corpus"] = corpus.specification
        self._spec = spec


class CompilerEnv(JsonSpec, gym.Env[Any, Any], EzPickle):
    """The base class of all environments; `mlgo_gym.envs` has one subclass for each task.

    `reset()` starts the compile of one module and returns its first decision. `step()` answers a decision and returns
    the next one. The episode terminates when clang exits. Its reward compares the object file with that of a plain
    compile by the same clang with the same flags. All earlier rewards are 0. Arguments: see `EnvironmentOptions`.

    Attributes:
        feature_names: Names of the elements of a flat observation.
        setup: Task, compiler, corpus and arguments, shared by all episodes.
        maker: Starts episodes.
        toolchain: The compiler.
        task: The task, bound to the compiler's headers.
        corpus: The modules; opened at first use.
        fork_method: `"snapshot"` or `"replay"` for an environment that `fork()` returned, else None.
        fork_reason: Reason for a replay; empty for a snapshot.

    Raises:
        ToolchainError: no compiler is found, or it does not support the task.
        MlgoError: an argument is not possible.
    """

    task_type: ClassVar[type[Task]]
    """The task; each environment sets it."""

    metadata: dict[str, Any] = {"render_modes": [*RENDER_MODES], "render_fps": 10}  # noqa: RUF012 - gymnasium declares it so

    def __init__(
        self,
        *,
        corpus: str | os.PathLike[str] | Corpus = "builtin",
        target: str | None = None,
        clang: str | None = None,
        observation: str = "flat",
        reward: str = "relative",
        metric: str | Mapping[str, float] | None = None,
        scope: str = "module",
        max_decisions: int | None = None,
        strict: bool = True,
        error_reward: float | Literal["lowest"] | None = "lowest",
        compile_options: Mapping[str, Any] = MappingProxyType({}),
        link_view: bool = False,
        module_order: str | Mapping[str, float] = "random",
        info: str = "full",
        render_mode: str | None = None,
        **further: Any,
    ) -> None:
        arguments = {**locals(), **further}
        del arguments["self"], arguments["further"]
        parameters = keyword_parameters(type(self))
        options, task_arguments = EnvironmentOptions.of(parameters, arguments)
        given = {name: value for name, value in arguments.items() if value is not parameters[name].default}
        EzPickle.__init__(self, **given)
        self.metadata = dict(type(self).metadata)  # wrappers and libraries write into what they find
        task = self.task_type(**task_arguments)
        self.setup = Setup(task, options)
        self.maker = EpisodeMaker(self.setup)
        self.task, self.toolchain = task, self.setup.toolchain
        self.render_mode = options.render_mode
        self.observation_space, self.action_space = task.observation_space, task.action_space
        self.feature_names = task.feature_names
        self.fork_method: str | None = None
        self.fork_reason = ""
        self._episode: Episode | None = None
        self._cursor = OrderCursor()

    @property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and if need be fetched and compiled, at first use."""
        return self.setup.corpus

    @property
    def metric(self) -> str:
        """The name of the metric whose cost is rewarded."""
        return self.setup.metric

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the compile of a module and return its first decision.

        Args:
            seed: Seed of the sampling of modules.
            options: `{"module": name}` chooses the module. With `scope="function"`, `{"function": name}` chooses the
                function too: for inlining a component of the call graph or one of its functions. Without a name, one
                with a decision is sampled. `{"state": state}` restores a result of `state()`, or its JSON data: a new
                compile takes the same actions. `fork()` copies a running one.

        Returns:
            The observation, and `info` with the keys of a decision: `module`, `context`, `decision_index`,
            `default_action` (clang's own choice), `action_mask` if actions are masked, and `skipped` (a dict from
            sampled modules on which the compiler failed to the reason) if there are any.

        Raises:
            CorpusError: the module is unknown or has no decision, or no module of the corpus has one.
            CompilerError: the compile of the named module fails before its first decision; when sampling, ten modules
                failed, or one with `error_reward=None`.
            MlgoError: an option is unknown, or the state is of another module, compiler, environment or flags, or at
                the end of its episode.

        A reset with an unknown option, name or state leaves the running episode as it is.
        """
        seed = None if seed is None else whole_number("seed", seed, 0)
        start = self.maker.read_start(read_options(options, ("module", "function", "state")), type(self).__name__)
        super().reset(seed=seed)
        self._end_episode()
        if seed is not None:
            self._cursor = self._cursor.restarted()
        self.maker.join(self)
        with uninterrupted():
            beginning = self.maker.begin(self.np_random, start, self._cursor)
            self._episode = run_blocking(beginning, self.setup.timeout)
        self._show()
        return self._episode.observe(), self._episode.info()

    def set_module_order(self, order: str | Mapping[str, float]) -> None:
        """Change the order of the modules, as `module_order`, from the next episode on; forks and copies keep it."""
        self._cursor.follow(self.setup.make_order(order))

    def compilation(self, module: Module) -> Compilation:
        """Return the command and the limits with which this environment compiles a module."""
        return self.setup.compilation(module)

    def decisions(self, module: Module) -> dict[str, int]:
        """Return the number of decisions of a module by context; counted once and kept on disk."""
        return self.setup.decisions(module)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Answer the current decision and return the next, or the end.

        Returns:
            Observation, reward, terminated, truncated, info. The last `info` has each metric of the task by name, such
            as `text`, and the metric of the plain compile as `baseline_text`. It also has `reduction` (of the rewarded
            metric, relative), `decisions` (of the agent), `handed_over` (decisions of clang after `max_decisions`),
            and the keys of the task. After a failure `error` has kind, message, exit status and the tail of standard
            error.

        Raises:
            ActionError: no decision is pending (call `reset()`), or the action is NaN, or illegal with `strict`.
            CompilerError: the compile failed and `error_reward` is None.
        """
        episode = self._episode or self._started("step()")
        episode.answer(episode.encode(action))
        run(episode.proceed(), self.setup.timeout)
        if self.render_mode is not None:
            self._show()
        outcome = episode.outcome
        if outcome is None:
            return self.task.observe(episode.decision or episode.pending()), 0.0, False, False, episode.info()
        return episode.observe(), outcome.reward, outcome.terminated, outcome.truncated, outcome.info

    def _started(self, method: str) -> Episode:
        if self._episode is None:
            raise NoEpisodeError(f"expected a started episode for {method}, got none; call reset()")
        return self._episode

    @uninterrupted()
    def fork(self) -> Self:
        """Return an independent environment that waits at the same decision.

        Arguments, corpus, compiler and the states of all random generators are equal. Forks can be forked, and closed
        in any order. Through wrappers, call `env.unwrapped.fork()`. The running compile is copied in about a
        millisecond where `mlgo-gym doctor` reports snapshots. Elsewhere a fresh compile replays the decisions, with the
        same result. `fork_method` of the fork tells which.

        Raises:
            ActionError: no decision is pending (call `reset()`).
            CompilerError: the replay failed.
            SnapshotError: the replay came to another decision.
        """
        fork = self._started("fork()").fork()
        # copy.copy() would make a new environment, by EzPickle.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._episode = fork
        copied._np_random = copy.deepcopy(self._np_random)
        copied._cursor = self._cursor.copy()
        copied.observation_space = copy.deepcopy(self.observation_space)
        copied.action_space = copy.deepcopy(self.action_space)
        self.maker.join(copied)
        copied.fork_method, copied.fork_reason = fork.fork_method, fork.fork_reason
        return copied

    def reward_of_default(self) -> float:
        """Return the reward that the episode gets if clang decides everything from the pending decision on.

        A fork runs to the end of its compile; this episode stays where it is. Errors are those of `fork()`.
        """
        with closing(self._started("reward_of_default()").fork()) as fork:
            return fork.finish_by_default().reward

    def counterfactual(self, *decisions: int | DecisionSite | tuple[str, int, int]) -> list[Counterfactual]:
        """Return the exact effect of each of some inlining decisions, with all others unchanged.

        One compile per decision and one more; `info["credit"]` estimates the effects without. Clang decides whatever
        the episode has not decided yet. Decisions are given by index in the episode (≥ 0), or by site: `info["site"]`
        or a tuple of context, visit and index.

        Raises:
            ActionError: no episode is started (call `reset()`).
            MlgoError: the episode has no such decision, or the task has other decisions than inlining.
        """
        return counterfactuals(self._started("counterfactual()"), decisions)

    def ir(self) -> DecisionIR:
        """Return the code of caller, predicted callee and call at the pending inlining decision; needs `ir=True`.

        Raises:
            ActionError: no inlining decision is pending (call `reset()`).
            MlgoError: the environment does not follow the code.
        """
        return self._code("ir()").ir()

    def call_graph(self, functions: int | None = None) -> CallGraph:
        """Return the call graph at the pending inlining decision; needs `ir=True` or `observation="graph"`.

        Args:
            functions: Largest number of functions (≥ 2): the nearest to the call. Default: all of the module.

        Raises: as `ir()`.
        """
        limit = None if functions is None else whole_number("functions", functions, 2)
        return self._code("call_graph()").call_graph(limit)

    def _code(self, method: str) -> DecisionCode:
        code = self._started(method).pending().code
        if code is not None:
            return code
        if not self.setup.options.reads_code:
            raise MlgoError(f"expected an inlining environment with ir=True for {method}, got another; add it")
        raise ActionError(f"expected a pending inlining decision for {method}, got another; step() to one first")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a fork; without a pending decision, a new environment with the same arguments and random state."""
        if self._decision is not None:
            return self.fork()
        copied: Self = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(self.__getstate__())
        copied._np_random, copied._np_random_seed = copy.deepcopy(self._np_random), self._np_random_seed
        copied._cursor = self._cursor.copy()
        copied.spec = self.spec
        return copied

    @property
    def has_decision(self) -> bool:
        """Whether a decision is pending."""
        return self._decision is not None

    @property
    def _decision(self) -> Decision | None:
        return None if self._episode is None else self._episode.decision

    @property
    def actions(self) -> tuple[int | float, ...]:
        """The actions of the current or the last episode, in order.

        Each is an int, or a float where actions are continuous. Clang's own choice replaces an illegal action.
        """
        return () if self._episode is None else tuple(self._episode.actions)

    def state(self) -> EpisodeState:
        """Return the state of the episode as a value, for saving, comparing and `reset(options={"state": …})`."""
        episode = self._started("state()")
        module = self.corpus.module(episode.module)  # before it was optimised
        return EpisodeState(
            module.name,
            module.digest(),
            episode.function,
            self.actions,
            self.toolchain.version_text,
            type(self).__name__,
            key_of(episode.compilation.flags),
        )

    def with_decisions(self, minimum: int = 1, maximum: int | None = None) -> Corpus:
        """Return the modules of the corpus with `minimum` to `maximum` decisions (None: no limit), in the same order.

        A compile of each module counts its decisions once; the counts are kept on disk.
        """
        most = float("inf") if maximum is None else maximum
        return self.corpus.filter(where=lambda module: minimum <= sum(self.decisions(module).values()) <= most)

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return 1 for each legal action of the pending decision, int8 of shape (number of actions,).

        All ones if actions are not masked or no decision is pending; None if actions are continuous.
        """
        mask = None if self._decision is None else self.task.action_mask(self._decision)
        return self.task.all_legal() if mask is None else mask

    def render(self) -> Any:  # Gymnasium 1.2 declares a type variable
        """Return a rendering of the pending decision.

        Returns:
            A text with `render_mode="ansi"`, else None; `"human"` prints the text at each reset and step.
        """
        return self._text() if self.render_mode == "ansi" else None

    def _show(self) -> None:
        if self.render_mode == "human":
            sys.stdout.write(f"{self._text()}\n\n")

    def _text(self) -> str:
        episode = self._episode
        if episode is None or (episode.decision is None and episode.outcome is None):
            return "no decision is pending: no episode is started"
        if episode.decision is None:
            return render_end(episode.module, episode.decisions, episode.full_info)
        last = episode.actions[-1] if episode.actions else None
        return render_text(self.task, episode.module, episode.decisions, episode.decision, last)

    @uninterrupted()
    def _end_episode(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def close(self) -> None:
        """End the current compile, and the waiting clangs of further episodes unless a fork is open. Idempotent."""
        self._end_episode()
        self.maker.leave(self)
        super().close()
