"""The interface of costs that depend on the other modules of a project, and their construction by metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.measurement import ESTIMATED_LINKED, INSTRUCTIONS, LINKED
from mlgo_gym.tasks.metrics import EstimatedLinkedSize, LinkedSize, ModulePrograms, PlainObjects, find_counter


class ProjectCost(Protocol):
    """A cost of one module's object, with the objects of all other modules by plain clang.

    Attributes:
        unit: The number by which `functions()` multiplies costs, so that they are integers.
        counts_calls: Whether the cost of a function depends on how often it is called.
    """

    unit: int
    counts_calls: bool

    @property
    def modules(self) -> frozenset[str] | None:
        """Names of the modules that have the cost; None for all."""

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the cost of an object of a module; None is that of plain clang.

        Raises:
            CompilerError: The object has no cost.
        """

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the cost of each function, and in place of `text` the cost, multiplied by `unit`.

        Raises:
            CompilerError: The object has no cost.
            MlgoError: The cost cannot be split.
        """


def project_costs(
    metrics: Iterable[str],
    corpus: Corpus,
    toolchain: Toolchain,
    plain: PlainObjects,
    *,
    trust: bool,
    limits: Limits,
) -> dict[str, ProjectCost]:
    """Return the costs of those metrics that depend on the project.

    Args:
        metrics: Names of metrics.
        corpus: The corpus.
        toolchain: The compiler, which links.
        plain: Objects by plain clang.
        trust: Whether to run programs and link arguments of a corpus unchecked.
        limits: Limits of each program of a link.

    Raises:
        CorpusError: The corpus lacks the programs or the links, or they are not trusted.
    """
    makers: dict[str, Callable[[], ProjectCost]] = {
        INSTRUCTIONS: lambda: ModulePrograms(corpus, toolchain, plain.object, trust=trust),
        LINKED: lambda: LinkedSize(corpus, toolchain, plain, trust=trust, limits=limits),
        ESTIMATED_LINKED: lambda: EstimatedLinkedSize(corpus, toolchain, plain, trust=trust, limits=limits),
    }
    if INSTRUCTIONS in metrics:
        find_counter()
    return {metric: make() for metric, make in makers.items() if metric in metrics}
