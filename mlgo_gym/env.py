"""`CompilerEnv(gymnasium.Env)`: an episode is one compile, an observation one decision; the same for every task."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import EzPickle
from typing_extensions import Self, Unpack

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.counterfactual import Counterfactual, counterfactuals
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.episode.options import RENDER_MODES, EnvOptions, Settings, keyword_arguments
from mlgo_gym.episode.setup import Setup
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.episode.step_limit import warn_of_step_limit
from mlgo_gym.episode.stepper import Stepper
from mlgo_gym.episode.twin import twin_of
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.work import complete
from mlgo_gym.tasks.render import render_end, render_text
from mlgo_gym.tasks.render_picture import EpisodePicture
from mlgo_gym.tasks.task import Task

_RESET_OPTIONS = ("module", "function")


class CompilerEnv(gym.Env[Any, Any], EzPickle):
    """The loop that is the same for every task; the classes in `mlgo_gym.envs` are what users make.

    `reset()` starts one compile of one module and returns its first decision; `step()` answers it and returns the
    next. The episode ends when clang has ended: `terminated`, and the reward compares the object file with that of a
    plain compile by the same clang with the same flags. Intermediate rewards are 0.

    Args:
        corpus: which modules: `"builtin"`, a dataset's name, a folder, a `.bc` file, a part of one such as
            `"zstd:train"`, or several with commas between them (see `mlgo_gym.corpus.open_corpus`); or a `Corpus`.
        clang: which compiler: a path or a name on `PATH`, version 17 or newer. Default: `$MLGO_CLANG`, else the
            bundled one.
        observation: `"flat"`, one float32 vector named by `feature_names`, beside an `action_mask` where actions are
            masked; `"vector"`, one float32 vector that has the mask in it; or `"dict"`, the raw tensors by name.
        reward: `"relative"`, `1 - cost / baseline`; `"bytes"`, `baseline - cost`; `"log"`, the logarithm of
            `baseline / cost`; or the name of a metric, whose relative reward it is.
        metric: which cost: `"text"`, the executable sections in bytes; `"llvm-size"`, the first column of llvm-size;
            `"object"`, the file; and those that the task adds.
        max_decisions: after so many decisions clang's own choices are taken to the end of the compile, so the reward
            is real. Default: no limit.
        timeout: how long clang may compute without a sign of life, in seconds.
        memory_limit: how much address space a compile may have, and write, in GiB. One that needs more fails alone.
        cpu_limit: how much processor time a compile may have, in seconds: for one that asks for ever. None: no limit.
        strict: raise `ActionError` on an illegal action, instead of taking clang's own choice and saying so in
            `info["illegal_action"]`.
        on_error: what a failing compile does: `"truncate"` ends the episode with `truncated`, `error_reward` and
            `info["error"]`; `"raise"` raises `CompilerError`.
        error_reward: the reward of a failed compile.
        flags: how modules without recorded flags are compiled; driver flags, or `-cc1` and its flags. Default: with
            `-fPIC` at the level that the attributes of their functions show.
        extra_flags: `-cc1` arguments for every compile, also the baseline's.
        echo_reply: let clang print the advice it received; at the end `info["stderr"]` has it.
        preoptimize: optimise each module once, keep the bitcode, and only generate code in episodes. For tasks whose
            decisions all come later, and on for those by default.
        verify_preoptimized: prove for each module, at first use, that this gives the same object.
        scope: `"module"`, or `"function"` for tasks with decisions in functions: then an episode is one function's
            decisions, clang's own choices are taken for all others, and the metrics of the task count that function
            alone. Where one of those is rewarded, the compile ends with the function, and there are no sizes. For
            inlining a function is a component of the call graph, as `info["context"]` names it; what is rewarded is the
            module against the compile in which clang's own choice answers every question, so just what the function's
            decisions moved.
        warm_resets: keep clangs waiting at the first decision of the modules met last, 8 at most and 1 GiB together,
            and copy one for each further episode of its module, where snapshots are possible. With the scope of a
            function they wait at functions, 32 at most, and are copied for later functions of the module too. Default:
            for decisions after the optimiser where modules are not optimised once, or compiles end with a function.
        trust: run the recorded flags of the corpus whatever they are. By default those that may do more than shape code
            are refused, and compilers cannot write outside their scratch folder where the kernel can see to that.
        contexts: follow in which functions clang inlines: `info` has `context`, `visit` and `position` then. Costs up
            to a quarter of a compile. Register allocation has its contexts without it.
        calls: foretell which call each inlining decision is about, `info["call"]`. Costs 20 to 70 % of a compile.
        credit: with the last `info`, the bytes that each inlining decision saved, and the bytes of each function.
            Costs up to a third of a compile, and one more compile per module.
        render_mode: what `render()` returns: `"ansi"`, a text; `"rgb_array"`, a picture (the extra `render`);
            `"human"` prints the text at each step; or None.
        order: which module comes next where none is named: `"random"` draws among all each time; `"shuffle"` takes each
            once, then shuffles again; `"cycle"` keeps the corpus's order. The last two leave out modules without
            decisions, begin anew with each `reset(seed=…)`, and in a vector environment share the modules out.
        module_weights: with `"random"`, how much likelier than by 1 modules are: a number of at least 0 by a glob of
            their names, `*` also matching slashes; of several that match, the first counts.
        info: `"full"`, or `"numeric"`: every key is there at each step and a number or an array of one shape, 0 where
            there is nothing to tell, for libraries that stack infos. `module` is then the module's position in
            `corpus.names`, and `failed` tells that the compile failed.

    Attributes:
        feature_names: the name of each element of a flat observation.
        setup: what all episodes of this environment have in common.
        maker: starts them.
        toolchain: the compiler.
        task: the task, bound to the compiler's headers.
        corpus: the modules; opened at first use.
        fork_method: how `fork()` made this environment: `"snapshot"` or `"replay"`; None for one that it did not make.
        fork_reason: why that was a replay; else empty.

    Raises:
        ToolchainError: no usable compiler, or one that cannot do this task.
        MlgoError: an argument is not one of those above.
    """

    task_type: ClassVar[type[Task]]
    """What is decided; each environment sets it."""

    metadata: dict[str, Any] = {"render_modes": [*RENDER_MODES], "render_fps": 10}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, task: Task, **options: Unpack[EnvOptions]) -> None:
        self.metadata = dict(type(self).metadata)  # wrappers and libraries write into what they find
        self.setup = Setup(task, Settings.of(options, keyword_arguments(type(self))))
        self.maker = EpisodeMaker(self.setup)
        self.task = task
        self.toolchain: Toolchain = self.setup.toolchain
        self.render_mode = self.setup.settings.render_mode
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self.feature_names = task.feature_names
        self.fork_method: str | None = None
        self.fork_reason = ""
        self._stepper: Stepper | None = None
        self._turn = Turn()
        self._begun_before = False

    @property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        return self.setup.corpus

    @property
    def metric(self) -> str:
        """The name of the cost that is rewarded."""
        return self.setup.metric

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the compile of a module and return its first decision.

        Args:
            seed: seeds the sampling of modules.
            options: `{"module": name}` chooses the module, and with the scope of a function `{"function": name}` the
                function too, for inlining a component or one of its functions; without them one is sampled among those
                with a decision.

        Returns:
            The observation, and `info`: `module`, `context` (the function, for register allocation), `decision` (the
            number of the decision, from 0), `default_action` (clang's own choice), `action_mask` where the task has
            one, and `skipped` (modules passed over because the compiler failed on them, with the reason) if any.

        Raises:
            CorpusError: the module is unknown or has no decision, or no module of the corpus has one.
            CompilerError: the compile of the named module fails before its first decision; when sampling, after ten
                such modules, or at the first with `on_error="raise"`.
            MlgoError: unknown options.
        """
        super().reset(seed=seed)
        self._end_episode()
        if not self._begun_before:
            warn_of_step_limit()
        self._begun_before = True
        if seed is not None:
            self._turn = Turn()
        chosen = dict(options or {})
        if unknown := set(chosen) - set(_RESET_OPTIONS):
            raise MlgoError(f"reset() knows the options {_RESET_OPTIONS}, found {sorted(map(str, unknown))}")
        name, function = chosen.get("module"), chosen.get("function")
        self.maker.check_choice(name, function)
        module = None if name is None else self.corpus.module(name)
        begun = complete(self.maker.begin(self.np_random, module, function, self._turn), self.setup.settings.timeout)
        self._stepper = Stepper(self.setup, begun)
        self._show()
        return self._stepper.observe(), self._stepper.info()

    def compilation(self, module: Module) -> Compilation:
        """Return how this environment compiles a module, but for channels and output."""
        return self.setup.compilation(module)

    def decisions(self, module: Module) -> dict[str, int]:
        """Return how many decisions a module raises in each context, counted once and kept on disk."""
        return self.setup.decisions(module)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Answer the current decision and return the next, or the end.

        Returns:
            Observation, reward, terminated, truncated, info. At the end `info` has `text_size`,
            `baseline_text_size` and their like for `llvm_size` and `object_size` in bytes, `reduction` (the relative
            reduction of the metric), `decisions` (how many the agent took), `handed_over` (how many clang took after
            the budget), and what the task adds. After a failure it has `error`: kind, message, exit status, the
            tail of standard error.

        Raises:
            ActionError: no decision waits (call `reset()`), or, with `strict`, the action is illegal.
            CompilerError: the compile failed and `on_error="raise"`.
        """
        stepper = self._stepper
        if stepper is None or stepper.decision is None:
            raise ActionError("no decision waits for an action: the episode is over or never began; call reset()")
        stepper.answer(stepper.encode(action))
        stepper.wait()
        self._show()
        ending = stepper.ending
        if ending is None:
            return stepper.observe(), 0.0, False, False, stepper.info()
        return self.task.final_observation(), ending.reward, not ending.truncated, ending.truncated, ending.info

    def fork(self) -> Self:
        """Return an independent environment of the same kind that waits at the same decision.

        Arguments, corpus, compiler and the states of all random generators are the same. It may be made any number of
        times, of forks too, and all are closed in any order; through wrappers it is `env.unwrapped.fork()`. The
        compile is copied as it is, in about a millisecond, where `mlgo-gym doctor` says so; elsewhere its decisions
        are replayed in a fresh one, with the same result. The fork's `fork_method` tells which it was.

        Raises:
            ActionError: no decision waits (call `reset()`).
            CompilerError: the compile failed when it was replayed.
            SnapshotError: a replay of the same decisions came to another one.
        """
        stepper = self._stepper
        if stepper is None or stepper.decision is None:
            raise ActionError("a fork waits at the same decision, and none waits: call reset()")
        # A copy by way of EzPickle would be a new environment.
        twin = twin_of(self)
        twin._stepper = None
        twin._np_random = copy.deepcopy(self._np_random)
        twin._turn = self._turn.copy()
        twin.observation_space = copy.deepcopy(self.observation_space)
        twin.action_space = copy.deepcopy(self.action_space)
        twin._stepper = stepper.fork()
        twin.fork_method, twin.fork_reason = twin._stepper.episode.fork_method, twin._stepper.episode.fork_reason
        return twin

    def counterfactual(self, *decisions: int | tuple[str, int, int]) -> list[Counterfactual]:
        """Return what each of some inlining decisions of this episode saved, all others made as they were.

        It is exact, and takes a compile for each and one more; `info["credit"]` estimates it without. What was not
        decided yet, clang decides.

        Args:
            decisions: each by its number in the episode, from 0, or by its context, visit and position.

        Raises:
            ActionError: no episode has begun (call `reset()`).
            MlgoError: the episode has no such decision, or others ask than the inliner.
        """
        if self._stepper is None:
            raise ActionError("a counterfactual is one of an episode, and none has begun: call reset()")
        return counterfactuals(self.setup, self._stepper.episode, self.actions, decisions)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a fork; where no decision waits, an environment made anew with the same arguments and random state."""
        if self._waiting is not None:
            return self.fork()
        twin: Self = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(self.__getstate__())
        twin._np_random, twin._np_random_seed = copy.deepcopy(self._np_random), self._np_random_seed
        twin._turn = self._turn.copy()
        twin.spec = self.spec
        return twin

    @property
    def _waiting(self) -> Stepper | None:
        """The stepper where it waits with a decision."""
        return self._stepper if self._stepper is not None and self._stepper.decision is not None else None

    @property
    def actions(self) -> tuple[int | float, ...]:
        """The actions of this episode so far, in order, of the last one once it is over.

        Each is an int, or a float where actions are continuous; clang's own choice stands for an illegal one.
        """
        return () if self._stepper is None else tuple(self._stepper.actions)

    def state(self) -> EpisodeState:
        """Return where the episode is, as a value: for saving, comparing, and `from_state()`.

        Raises:
            ActionError: no episode has begun (call `reset()`).
        """
        if self._stepper is None:
            raise ActionError("a state is one of an episode, and none has begun: call reset()")
        episode = self._stepper.episode
        module = self.corpus.module(episode.compilation.module.name)  # before it was optimised
        return EpisodeState(module.name, module.digest(), episode.function, self.actions, self.toolchain.version_text)

    def from_state(self, state: EpisodeState | Mapping[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go where another episode was: begin one of its module, and take its actions.

        A compile is begun anew; `fork()` copies one that runs.

        Args:
            state: what `state()` returned, here or in an environment of the same kind and arguments, or its JSON data.

        Returns:
            Observation, reward, terminated, truncated and info of the last of its steps, or of the reset where it has
            none.

        Raises:
            MlgoError: the module or the compiler is another, or the episode is over before all actions were taken.
            CorpusError: the corpus has no such module.
        """
        there = state if isinstance(state, EpisodeState) else EpisodeState.from_json(state)
        there.check(self.corpus.module(there.module).digest(), self.toolchain.version_text)
        options = {"module": there.module} | ({} if there.function is None else {"function": there.function})
        observation, info = self.reset(options=options)
        result = observation, 0.0, False, False, info
        for number, action in enumerate(there.actions):
            if self._waiting is None:
                raise MlgoError(
                    f"the state has {len(there.actions)} actions, and the episode was over after {number}: use an "
                    "environment with the same arguments"
                )
            result = self.step(action)
        return result

    def with_decisions(self, least: int = 1, most: int | None = None) -> Corpus:
        """Return the modules of the corpus in which this environment has so many decisions, in the same order.

        What is not known yet is counted, by a compile of each module, and kept on disk.

        Args:
            least: at least so many.
            most: at most so many; None is no limit.

        Raises:
            CorpusError: the corpus has no end.
            CompilerError: the compiler fails on a module.
        """
        return self.corpus.filter(
            decisions=(self.task.name, least, most), count=lambda module, _: sum(self.decisions(module).values())
        )

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return which actions are legal at the current decision, int8 of shape (number of actions,).

        All are where nothing is masked, and where no decision waits; None where actions are continuous.
        """
        waiting = self._waiting
        mask = None if waiting is None or waiting.decision is None else self.task.action_mask(waiting.decision)
        return self.task.all_legal() if mask is None else mask

    def render(self) -> Any:
        """Return the current decision for a person to see.

        Returns:
            With `render_mode="ansi"` a text. With `"rgb_array"` a picture, uint8 of shape (288, 480, 3): the decision,
            what was decided so far and whether clang would have, and at the end what it led to. None otherwise;
            `"human"` prints the text at each reset and step.

        Raises:
            MissingExtraError: a picture needs Pillow, which is not installed.
        """
        return self.render_step(self._stepper)

    def render_step(self, stepper: Stepper | None) -> Any:
        """Return the current decision of an episode of this environment's kind, as `render()` does."""
        if self.render_mode == "rgb_array":
            if stepper is None or stepper.picture is None:
                return EpisodePicture(self.task).draw(None)
            return stepper.picture.draw(stepper.decision)
        return self._text(stepper) if self.render_mode == "ansi" else None

    def _show(self) -> None:
        if self.render_mode == "human":
            sys.stdout.write(f"{self._text(self._stepper)}\n\n")

    def _text(self, stepper: Stepper | None) -> str:
        if stepper is None or (stepper.decision is None and stepper.ending is None):
            return "no decision waits: no episode has begun"
        episode = stepper.episode
        module = episode.compilation.module.name
        if stepper.decision is None:
            return render_end(module, episode.decisions, stepper.outcome)
        last = stepper.actions[-1] if stepper.actions else None
        return render_text(self.task, module, episode.decisions, stepper.decision, last)

    def _end_episode(self) -> None:
        if self._stepper is not None:
            self._stepper.close()
            self._stepper = None

    def close(self) -> None:
        """End the current compile, if there is one, and the clangs that wait for further episodes. Idempotent."""
        self._end_episode()
        self.maker.close()
        super().close()
