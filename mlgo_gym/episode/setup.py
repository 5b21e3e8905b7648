"""What all episodes of an environment have in common: task and compiler, corpus, and how a module is compiled."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.order import ModuleOrder
from mlgo_gym.episode.component_count import count_components
from mlgo_gym.episode.decision_count import count_decisions
from mlgo_gym.episode.numeric_infos import NumericInfos
from mlgo_gym.episode.options import Settings
from mlgo_gym.episode.placed_compile import PlacedCompile, placing
from mlgo_gym.episode.preoptimization import preoptimize, prove
from mlgo_gym.episode.probe import probe
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.work import Work, complete
from mlgo_gym.tasks.task import Task

_ECHO = ("-mllvm", "-interactive-model-runner-echo-reply")
"""Makes clang print the advice that it receives (llvm/lib/Analysis/InteractiveModelRunner.cpp)."""

MOST_REFERENCES = 64
"""How many modules' compiles of clang's own choices are kept for credit."""


class Setup:
    """A task, bound to a compiler, and the arguments of its environment.

    Args:
        task: the task; it is bound to the compiler here.
        settings: the arguments of the environment; they are checked here.

    Attributes:
        task: the bound task.
        settings: the arguments.
        toolchain: the compiler.
        reward: the name of the reward among `REWARDS`.
        metric: the name of the cost that is rewarded.

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
        self.reward = "relative" if named else settings.reward
        self.metric = settings.reward if named else settings.metric or task.default_metric
        self._numeric = NumericInfos(task) if settings.info == "numeric" else None
        self._verified: set[str] = set()
        self._references: dict[str, PlacedCompile] = {}

    @cached_property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        flags = self.settings.flags
        return open_corpus(
            self.settings.corpus,
            toolchain=self.toolchain,
            flags=None if flags is None else tuple(flags),
            trust=self.settings.trust,
        )

    @cached_property
    def order(self) -> ModuleOrder:
        """In which order episodes take the modules.

        Raises:
            CorpusError: the corpus cannot be gone through in that order.
        """
        return ModuleOrder(self.corpus.names, self.settings.order, self.settings.module_weights)

    @property
    def numeric(self) -> bool:
        """Whether infos contain nothing but numbers."""
        return self._numeric is not None

    def info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return an episode's info in the form that the environment gives it."""
        return info if self._numeric is None else self._numeric.of(info, self.corpus)

    @property
    def measures_functions_alone(self) -> bool:
        """Whether an episode is one function and ends with it, long before there is an object file."""
        return self.settings.scope == "function" and self.metric in self.task.function_metrics

    @property
    def of_components(self) -> bool:
        """Whether an episode is one component of the call graph that the inliner comes to."""
        return self.settings.scope == "function" and INLINING in self.task.advisors

    def compilation(self, module: Module) -> Compilation:
        """Return how a module is compiled, but for channels and output; optimises it first where that is done once.

        Raises:
            CompilerError: the compiler fails on the module.
        """
        return complete(self.plan(module), self.settings.timeout)

    def reference(self, compilation: Compilation) -> PlacedCompile:
        """Return the compile of clang's own choices, with places and bytes by function; made once and kept.

        Raises:
            CompilerError: the compile failed.
        """
        return complete(self.refer(compilation), self.settings.timeout)

    def refer(self, compilation: Compilation) -> Work[PlacedCompile]:
        """Do what `reference()` does, as work for an event loop too."""
        key = compilation.key("reference")
        if key not in self._references:
            own = self.task.default_action
            made = yield from placing(compilation, self.task, lambda decision: int(own(decision)))
            while len(self._references) >= MOST_REFERENCES:
                self._references.pop(next(iter(self._references)))
            self._references[key] = made
        return self._references[key]

    def plan(self, module: Module) -> Work[Compilation]:
        """Do what `compilation()` does, as work for an event loop too."""
        full = plan(module, self.toolchain, self._flags, self.settings.limits)
        if not self.settings.preoptimizes(self.task):
            return full
        optimized = yield from preoptimize(full)
        if self.settings.verify_preoptimized and module.name not in self._verified:
            yield from prove(full, optimized)
            self._verified.add(module.name)
        return optimized

    def decisions(self, module: Module) -> dict[str, int]:
        """Return how many decisions a module raises in each context, counted once and kept on disk.

        For inlining the contexts are components with the scope of a function, and else one that is empty.

        Raises:
            CompilerError: the compiler fails on the module.
        """
        compilation = self.compilation(module)
        if self.of_components:
            return dict(complete(count_components(compilation, self.task), self.settings.timeout).decisions)
        return count_decisions(compilation, self.task, self.settings.timeout)
