"""The measurements of one finished compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.allocation_record import AllocationCosts, read_allocation_record
from mlgo_gym.llvm.allocation_remarks import read_allocation_remarks
from mlgo_gym.llvm.object_file import ObjectSizes, object_sizes
from mlgo_gym.session.protocol.connection import CompileResult

SIZE_METRICS = ("text", "llvm_size", "object")
"""Metrics of an object file, in bytes; the fields of `ObjectSizes`.

A metric has one spelling everywhere: the argument `metric`, results, reports, and the last `info` of an episode. There
`info[METRIC]` is the value of the episode's compile, and `info["baseline_" + METRIC]` that of a plain compile. Metrics
of a task, such as `spill_cost`, follow the same rule.
"""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The sizes and costs of one compile.

    Attributes:
        sizes: the sizes of its object file; None where the compile was ended before there was one.
        allocation: what register allocation cost, for each function that has any cost; empty where the optimisation
            record was not asked for.
    """

    sizes: ObjectSizes | None
    allocation: Mapping[str, AllocationCosts] = field(default_factory=dict)

    @classmethod
    def of(cls, compiled: CompileResult) -> Measurement:
        """Measure a finished compile.

        Raises:
            CompilerError: of kind `object`: the object is no whole ELF file, or the record not of LLVM's form.
        """
        try:
            return cls(object_sizes(compiled.object_bytes), read_allocation_record(compiled.optimization_record))
        except MlgoError as error:
            message = f"clang succeeded, but its object cannot be measured: {error}"
            raise CompilerError(message, kind="object", exit_status=0, stderr=compiled.stderr) from error

    @classmethod
    def of_function(cls, function: str, remarks: str) -> Measurement:
        """Measure the allocation of one function by clang's remarks since its first decision (`REMARK_FLAGS`).

        Raises:
            MlgoError: the remarks lack its costs.
        """
        return cls(None, {function: read_allocation_remarks(remarks)})

    def sizes_by_metric(self) -> dict[str, int]:
        """Return the sizes by metric, empty if there is no object file."""
        return {} if self.sizes is None else asdict(self.sizes)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Measurement:
        """Build a measurement from `to_json()`'s result; other data raise a KeyError or TypeError."""
        costs = {function: AllocationCosts(*numbers) for function, numbers in value["allocation"].items()}
        return cls(ObjectSizes(**value["sizes"]), costs)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        assert self.sizes is not None, "what was ended early is no baseline"
        costs = {function: astuple(cost) for function, cost in self.allocation.items()}
        return {"sizes": asdict(self.sizes), "allocation": costs}
