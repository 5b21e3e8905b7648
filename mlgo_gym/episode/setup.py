"""The setup of an environment: task, compiler, corpus and arguments, shared by all episodes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mlgo_clang.files import file_identity
from mlgo_gym.compiler.callee_features import with_callee_features
from mlgo_gym.compiler.coroutine import CompilerCoroutine, run_blocking
from mlgo_gym.compiler.printed_module import MODULE_END, MODULE_FLAGS, PrintedModule
from mlgo_gym.compiler.probe import probe
from mlgo_gym.compiler.process import STACK_USAGE_FLAGS
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.flags import check_arguments
from mlgo_gym.corpus.module_order import ModuleOrder
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, inline_compile_coroutine
from mlgo_gym.episode.baseline import count, preoptimize
from mlgo_gym.episode.metrics.counters import find_counter
from mlgo_gym.episode.metrics.linked import LinkedSize, PlainObjects
from mlgo_gym.episode.metrics.programs import ModulePrograms
from mlgo_gym.episode.options import EnvironmentOptions, check_order
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.sizes import FunctionSizes
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.tasks.infos import CREDIT, FUNCTION, SIZES, NumericInfos, with_metric
from mlgo_gym.tasks.measurement import INSTRUCTIONS, LINKED, MAX_FRAME, WEIGHTED, Measurement
from mlgo_gym.tasks.task import Task

Value = TypeVar("Value")

_CHECKED_MODULES = 1000
"""Largest number of modules of which one must have no recorded flags, where flags for such are given."""

MAX_REFERENCES = 64
"""Largest number of modules of which reference compiles are kept for credit, and code for observations."""


MAX_FUNCTIONS = 64
"""Default largest number of functions in an observation of the call graph."""


class ProjectCost(Protocol):
    """A cost of one module's object, with the objects of all other modules by plain clang.

    Attributes:
        counts_calls: Whether the cost of a function depends on how often it is called.
    """

    counts_calls: bool

    @property
    def identity(self) -> str:
        """Digest of the other modules, and of the files of links and programs."""

    @property
    def modules(self) -> frozenset[str]:
        """Names of the modules that have the cost."""

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the cost of an object, None for that of plain clang; raise `CompilerError` if it has none."""

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the cost of each function, and in place of `text` the cost, as integers."""


class Setup:
    """A task bound to a compiler, and the arguments of the environment, both checked here.

    Attributes:
        timeout: Longest silence of a computing clang, in seconds.
        metric, weights: Name of the rewarded metric, `WEIGHTED` for several, and the weight of each.
        numeric_infos: Converts infos to numbers; None with full infos.
    """

    def __init__(self, task: Task, options: EnvironmentOptions) -> None:
        options.check(task)
        self.options, self.task = options, task
        self._compile_options = options.compile_options
        self.timeout = self._compile_options.timeout
        if self._compile_options.check_flags:
            check_arguments(("-cc1", *self._compile_options.extra_flags), "extra_flags")
        self.toolchain = find_toolchain(options.clang)
        metric = options.metric or task.default_metric
        self.metric = metric if isinstance(metric, str) else WEIGHTED
        self.weights = {metric: 1.0} if isinstance(metric, str) else dict(metric)
        metric_flags = STACK_USAGE_FLAGS if MAX_FRAME in self.weights else ()
        task_flags = task.flags(self.toolchain)
        headers = [probe(self.toolchain, advisor, task_flags).header for advisor in task.advisors]
        if options.callee_features:
            headers = [
                with_callee_features(header) if advisor is INLINING else header
                for header, advisor in zip(headers, task.advisors, strict=True)
            ]
        task.bind(headers, options.observation)
        task.max_functions = options.max_functions or MAX_FUNCTIONS
        self._flags = (*task_flags, *self._compile_options.extra_flags, *metric_flags)
        self.numeric_infos = NumericInfos(task, self.info_conditions) if options.info == "numeric" else None
        self._link_facts = None if options.link_facts is None else LinkFacts.read(options.link_facts)
        self._references: dict[str, InlineCompile] = {}
        self._codes: dict[str, PrintedModule] = {}

    @cached_property
    def _opened(self) -> Corpus:
        flags, trust_flags = self._compile_options.flags, self._compile_options.trust_flags
        flags = None if flags is None else tuple(flags)
        options = self.options
        opened = open_corpus(
            options.corpus,
            toolchain=self.toolchain,
            flags=flags,
            trust_flags=trust_flags,
            link_view=options.link_view,
            link_facts=options.link_facts if options.link_view else None,
        )
        is_set = flags is not None or self.options.target is not None
        if is_set and all(module.flags not in (None, flags) for module in opened[:_CHECKED_MODULES]):
            self.options.refuse_ignored_flags(opened.name)
        return opened

    @cached_property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and if need be fetched and compiled, at first use.

        With the metric `instructions` these are the modules of programs, with `linked` those of links.
        """
        corpus = self._opened
        for cost in self.project_costs.values():
            corpus = corpus.subset(cost.modules)
        return corpus

    @cached_property
    def project_costs(self) -> dict[str, ProjectCost]:
        """The rewarded costs that depend on other modules of the project; `CorpusError` if the corpus lacks them."""
        trust, limits = self._compile_options.trust_flags, self._compile_options.limits
        corpus, toolchain, whole = self._opened, self.toolchain, self._opened.whole()
        # Also the objects of modules beyond this part of the corpus.
        plain = PlainObjects(lambda name: self.compilation(whole.module(name)), self.timeout)
        makers: dict[str, Callable[[], ProjectCost]] = {
            INSTRUCTIONS: lambda: ModulePrograms(corpus, toolchain, plain.object, trust=trust),
            LINKED: lambda: LinkedSize(corpus, toolchain, plain, trust=trust, limits=limits),
        }
        if INSTRUCTIONS in self.weights:
            find_counter()
        return {metric: make() for metric, make in makers.items() if metric in self.weights}

    def with_project_costs(
        self, measurement: Measurement, module: str, object_bytes: bytes | None = None
    ) -> Measurement:
        """Return the measurement of an object with the costs of the project; None is the object of plain clang."""
        costs = {metric: cost.cost(module, object_bytes) for metric, cost in self.project_costs.items()}
        return replace(measurement, project=costs) if costs else measurement

    @cached_property
    def order(self) -> ModuleOrder:
        """The order in which episodes take the modules; `CorpusError` if the corpus does not support it."""
        return self.make_order(self.options.module_order)

    def make_order(self, order: str | Mapping[str, float]) -> ModuleOrder:
        """Return another order of the modules; `MlgoError` if there is none, or the corpus does not support it."""
        check_order(order)
        return ModuleOrder(self.corpus.names, order)

    def info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return an info in the form that the arguments choose."""
        return info if self.numeric_infos is None else self.numeric_infos.of(info, self.corpus)

    @property
    def preoptimizes(self) -> bool:
        """Whether modules are optimised once and episodes only generate code."""
        chosen = self._compile_options.preoptimize
        return self.task.after_optimization if chosen is None else chosen

    @property
    def forks_resets(self) -> bool:
        """Whether clangs wait at first decisions, to be copied for further episodes.

        By default where most of a compile precedes its first decision, or the compile ends with its function.
        """
        chosen = self._compile_options.fork_resets
        if chosen is not None:
            return chosen
        return (self.task.after_optimization and not self.preoptimizes) or self.measures_functions_alone

    @property
    def measures_functions_alone(self) -> bool:
        """Whether an episode is one function and the compile ends with that function, before there is an object."""
        return self.options.scope == "function" and self.metric in self.task.function_metrics

    @property
    def info_conditions(self) -> set[str]:
        """The conditions of keys of the last info that hold here (`mlgo_gym.tasks.infos.KEYS`)."""
        is_function, has_sizes = self.options.scope == "function", not self.measures_functions_alone
        holds = {SIZES: has_sizes, FUNCTION: is_function, CREDIT: self.options.credit}
        return {*filter(holds.get, holds), *map(with_metric, (*self.weights, self.metric))}

    def compilation(self, module: Module) -> Compilation:
        """Return the compile of a module; preoptimise the module first if the arguments say so."""
        return run_blocking(self.plan(module), self.timeout)

    def plan(self, module: Module) -> CompilerCoroutine[Compilation]:
        """Return `compilation()` as a coroutine.

        Raises `MlgoError` if the task decides about registers, and the module is WebAssembly, which has none.
        """
        options = self._compile_options
        if module.flags is None and options.flags is not None:
            module = replace(module, flags=tuple(options.flags), trusted=True)
        if options.check_flags:
            module = replace(module, trusted=False)
        full = plan(module, self.toolchain, self._flags, options.limits, target=self.options.target)
        facts = self._link_facts
        if facts is None and module.link_facts is not None and self.options.callee_features:
            path = module.link_facts
            facts = _read_facts(path, file_identity(path.stat()) if path.is_file() else "")
        full = replace(full, link_facts=facts)
        if self.options.reads_code:
            full = replace(full, code=(yield from self._code(full)))
        if self.task.after_optimization and full.triple.startswith("wasm"):
            raise MlgoError(
                f"expected a target with registers for {self.task.name}, got {full.triple} of module {module.name!r}; "
                "use mlgo/Inline-v0"
            )
        if not self.preoptimizes:
            return full
        return (yield from preoptimize(full))

    def _code(self, compilation: Compilation) -> CompilerCoroutine[PrintedModule]:
        """Return, as a coroutine, the module of a compile when the inliner starts; kept in memory."""
        key = compilation.key("code")
        if key not in self._codes:
            with replace(compilation, flags=(*compilation.flags, *MODULE_FLAGS)).session() as session:
                session.stop_at(MODULE_END.encode())
                yield session
                # clang may print more before it is ended.
                text, *_ = session.captured.partition(MODULE_END)
                _keep(self._codes, key, PrintedModule(text))
        return self._codes[key]

    def reference(self, compilation: Compilation) -> CompilerCoroutine[InlineCompile]:
        """Return, as a coroutine, the compile of clang's own choices, with sites and sizes; kept in memory."""
        key = compilation.key("reference")
        if key not in self._references:
            without_code = replace(compilation, code=None)
            compiled = yield from inline_compile_coroutine(without_code, self.task, self.task.default_action)
            _keep(self._references, key, compiled)
        return self._references[key]

    def decisions(self, module: Module) -> dict[str, int]:
        """Return the number of decisions of a module by function, of inlining all together; counted once."""
        return run_blocking(count(self.compilation(module), self.task), self.timeout)


def _keep(cache: dict[str, Value], key: str, value: Value) -> None:
    while len(cache) >= MAX_REFERENCES:
        cache.pop(next(iter(cache)))
    cache[key] = value


@lru_cache(maxsize=8)
def _read_facts(path: Path, _identity: str) -> LinkFacts:
    return LinkFacts.read(path)
