"""What all episodes of an environment have in common: compiler, corpus, task, and how an outcome becomes a reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.episode.decision_count import count, count_decisions, known_decisions
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.options import Settings
from mlgo_gym.episode.preoptimization import preoptimize, prove
from mlgo_gym.episode.probe import probe
from mlgo_gym.episode.warm_starts import MOST, MOST_FUNCTIONS, WarmStarts
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.work import Work, complete
from mlgo_gym.tasks.reward import REWARDS
from mlgo_gym.tasks.task import Task
from mlgo_gym.vector.info_batch import everywhere

_ECHO = ("-mllvm", "-interactive-model-runner-echo-reply")
"""Makes clang print the advice that it receives (llvm/lib/Analysis/InteractiveModelRunner.cpp)."""

_MOST_FAILURES = 10
"""Sampling gives up after so many modules that the compiler fails on."""


class EpisodeMaker:
    """Starts episodes, and turns them into observations, infos and rewards.

    Args:
        task: the task; it is bound to the compiler here.
        settings: the checked arguments of the environment.

    Raises:
        ToolchainError: no usable compiler, or one that cannot do this task.
        MlgoError: an argument is none of those that are possible.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        settings.check(task)
        self.settings = settings
        self.task = task
        self.toolchain = find_toolchain(settings.clang)
        task_flags = task.flags(self.toolchain)
        task.bind(
            [probe(self.toolchain, advisor, task_flags).header for advisor in task.advisors], settings.observation
        )
        echo = _ECHO if settings.echo_reply else ()
        self._flags = (*task_flags, *settings.extra_flags, *echo)
        named = settings.reward in task.metrics
        self._reward = REWARDS["relative" if named else settings.reward]
        self.metric = settings.reward if named else settings.metric or task.default_metric
        self._warm_starts: WarmStarts | None = None
        if settings.resets_warm(task) or (settings.warm_resets is None and self.measures_functions_alone):
            self._warm_starts = WarmStarts(MOST if settings.scope == "module" else MOST_FUNCTIONS)
        self._places: dict[str, dict[str, int]] = {}
        self._empty: set[tuple[str, str | None]] = set()
        self._verified: set[str] = set()

    @cached_property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        flags = self.settings.flags
        return open_corpus(
            self.settings.corpus, toolchain=self.toolchain, flags=None if flags is None else tuple(flags)
        )

    def compilation(self, module: Module) -> Compilation:
        """Return how a module is compiled, but for channels and output; optimises it first where that is done once.

        Raises:
            CompilerError: the compiler fails on the module.
        """
        return complete(self._compilation(module), self.settings.timeout)

    def _compilation(self, module: Module) -> Work[Compilation]:
        full = plan(module, self.toolchain, self._flags)
        if not self.settings.preoptimizes(self.task):
            return full
        optimized = yield from preoptimize(full)
        if self.settings.verify_preoptimized and module.name not in self._verified:
            yield from prove(full, optimized)
            self._verified.add(module.name)
        return optimized

    def decisions(self, module: Module) -> Mapping[str, int]:
        """Return how many decisions a module raises in each context, counted once and kept on disk."""
        return count_decisions(self.compilation(module), self.task, self.settings.timeout)

    def start(self, module: Module, function: str | None, generator: np.random.Generator) -> Episode | None:
        """Start an episode, or return None when the module, or the function, is known to have no decision.

        Args:
            module: the module.
            function: with the scope of a function, which one; None samples one among those with a decision.
            generator: for that sample.

        Raises:
            CompilerError: the compiler cannot be started, or fails in a step before the episode.
        """
        return complete(self.prepare(module, function, generator), self.settings.timeout)

    def prepare(self, module: Module, function: str | None, generator: np.random.Generator) -> Work[Episode | None]:
        """Do what `start()` does, as work for an event loop too.

        It waits for what is compiled the first time that a module is met: its optimised bitcode, and the count of the
        decisions in each function.
        """
        if (module.name, function) in self._empty or (module.name, None) in self._empty:
            return None
        compilation = yield from self._compilation(module)
        if self.settings.scope == "function":
            counts = yield from count(compilation, self.task)
            functions = sorted(counts)
            if function is None and functions:
                function = functions[int(generator.integers(len(functions)))]
            empty = function not in counts
            self._places[module.name] = {name: place for place, name in enumerate(counts)}
        else:
            empty = known_decisions(compilation, self.task) == {}
        if empty:
            self._empty.add((module.name, function))
            return None
        if self._warm_starts is not None:
            place = self._place(module.name, function)
            warm = self._warm_starts.copy(compilation.key("warm"), place, self.settings.timeout)
            if warm is not None:
                # Another module may have the same bitcode, and be what the waiting clang was started for.
                warm.compilation = compilation
                if function is not None and warm.function != function:
                    warm.turn_to(function)
                return warm
        return Episode(
            compilation,
            self.task,
            max_decisions=self.settings.max_decisions,
            function=function,
            alone=self.measures_functions_alone,
        )

    @property
    def measures_functions_alone(self) -> bool:
        """Whether an episode is one function and ends with it, long before there is an object file."""
        return self.settings.scope == "function" and self.metric in self.task.function_metrics

    def check_choice(self, module: str | None, function: str | None) -> None:
        """Check what a reset may ask for.

        Raises:
            MlgoError: a function without its module, or where episodes are whole modules.
        """
        if function is not None and (module is None or self.settings.scope != "function"):
            raise MlgoError(
                'the option "function" needs the option "module" too, and an environment of scope="function"'
            )

    def no_decision(self, module: str, function: str | None) -> CorpusError:
        """Return the error that says that there is nothing to learn from in what was asked for."""
        where = f"function {function!r} of " if function is not None else ""
        return CorpusError(
            f"{where}module {module!r} of corpus {self.corpus.name!r} has no {self.task.name} decision to learn "
            "from: choose another, or let reset() sample one"
        )

    def keep_warm(self, episode: Episode) -> None:
        """Keep a copy of an episode that waits with its first decision, where further ones start from copies."""
        if self._warm_starts is not None:
            place = self._place(episode.compilation.module.name, episode.function)
            self._warm_starts.keep(episode.compilation.key("warm"), place, episode, self.settings.timeout)

    def _place(self, module: str, function: str | None) -> int:
        """Return as the how many-eth of the functions with decisions clang comes to one."""
        return 0 if function is None else self._places[module][function]

    def close(self) -> None:
        """End the clangs that wait for further episodes. Idempotent."""
        if self._warm_starts is not None:
            self._warm_starts.close()

    def note_empty(self, episode: Episode) -> None:
        """Remember that an episode ended without a decision."""
        self._empty.add((episode.compilation.module.name, episode.function))

    def observe(self, episode: Episode) -> tuple[Any, dict[str, Any]]:
        """Return observation and info of the decision that an episode waits with."""
        info = self.decision_info(episode)
        assert episode.decision is not None
        return self.task.observe(episode.decision), info

    def decision_info(self, episode: Episode) -> dict[str, Any]:
        """Return the info of the decision that an episode waits with."""
        decision, task = episode.decision, self.task
        assert decision is not None
        info = {
            "module": episode.compilation.module.name,
            "context": decision.context,
            "decision": episode.decisions,
            "default_action": task.default_action(decision),
        }
        mask = task.action_mask(decision)
        if mask is not None:
            info["action_mask"] = mask
        return info

    def decision_infos(self, episodes: Sequence[Episode]) -> dict[str, Any]:
        """Return what `batch_infos()` makes of the `decision_info()` of each of some episodes, at less cost."""
        decisions = [episode.decision for episode in episodes if episode.decision is not None]
        task, present = self.task, everywhere(len(episodes))
        info = {
            "module": np.array([episode.compilation.module.name for episode in episodes], object),
            "_module": present,
            "context": np.array([decision.context for decision in decisions], object),
            "_context": present,
            "decision": np.array([episode.decisions for episode in episodes]),
            "_decision": present,
            "default_action": np.array([task.default_action(decision) for decision in decisions]),
            "_default_action": present,
        }
        if task.masked:
            info["action_mask"] = np.array([task.action_mask(decision) for decision in decisions])
            info["_action_mask"] = present
        return info

    def conclude(self, episode: Episode) -> tuple[float, dict[str, Any]]:
        """Return reward and info of an episode that is over."""
        measurement, baseline = episode.measurement, episode.baseline
        assert measurement is not None
        assert baseline is not None
        outcome = self.task.outcome(measurement, self.metric, episode.function)
        reference = self.task.outcome(baseline, self.metric, episode.function)
        info = self._last_info(episode)
        if measurement.sizes is not None:
            for label, measured in (("", measurement), ("baseline_", baseline)):
                info |= {f"{label}{name}": size for name, size in measured.named_sizes().items()}
        info["reduction"] = REWARDS["relative"](outcome, reference)
        info |= self.task.report(measurement, baseline, episode.function)
        if self.settings.echo_reply:
            info["stderr"] = episode.session.stderr
        return self._reward(outcome, reference), info

    def fail(self, episode: Episode, error: CompilerError) -> tuple[float, dict[str, Any]]:
        """Return reward and info of an episode whose compile failed.

        Raises:
            CompilerError: `error`, with `on_error="raise"`.
        """
        if self.settings.on_error == "raise":
            raise error
        info = self._last_info(episode)
        info["error"] = {
            "kind": error.kind,
            "message": error.message,
            "exit_status": error.exit_status,
            "stderr": error.stderr,
        }
        return self.settings.error_reward, info

    def _last_info(self, episode: Episode) -> dict[str, Any]:
        info = {
            "module": episode.compilation.module.name,
            "decisions": episode.decisions,
            "handed_over": episode.handed_over,
        }
        if episode.function is not None:
            info["context"] = episode.function
        return info


class Sampler:
    """Draws modules until one has a decision; what it drew before, it does not draw again.

    Args:
        maker: whose corpus to draw from.
        generator: the random generator: equal states draw equal modules.

    Attributes:
        skipped: the modules on which the compiler failed, with the reason.
    """

    def __init__(self, maker: EpisodeMaker, generator: np.random.Generator) -> None:
        self._maker = maker
        self._generator = generator
        self._drawn: set[int] = set()
        self.skipped: dict[str, str] = {}

    def draw(self) -> Module:
        """Return a module that was not drawn before, uniformly.

        Raises:
            CorpusError: all were drawn.
        """
        corpus = self._maker.corpus
        while len(self._drawn) < len(corpus):
            index = int(self._generator.integers(len(corpus)))
            if index not in self._drawn:
                self._drawn.add(index)
                return corpus[index]
        failures = f"; the compiler failed on {len(self.skipped)} of them" if self.skipped else ""
        raise CorpusError(
            f"none of the {len(corpus)} modules of corpus {corpus.name!r} has a {self._maker.task.name} "
            f"decision{failures}: choose another corpus"
        )

    def note_failure(self, module: str, error: MlgoError) -> None:
        """Remember that the compiler failed on a module.

        Raises:
            MlgoError: `error`, when too many failed, or with `on_error="raise"`.
        """
        self.skipped[module] = str(error)
        most = min(_MOST_FAILURES, len(self._maker.corpus))
        if self._maker.settings.on_error == "raise" or len(self.skipped) >= most:
            raise error
