"""What one finished compile achieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.allocation_record import AllocationCosts, read_allocation_record
from mlgo_gym.llvm.allocation_remarks import read_allocation_remarks
from mlgo_gym.llvm.object_file import ObjectSizes, object_sizes
from mlgo_gym.session.compiled import Compiled

SIZE_NAMES = ("text_size", "llvm_size", "object_size")
"""The names of the sizes in an episode's last `info`."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one compile achieved.

    Attributes:
        sizes: the sizes of its object file; None where the compile was ended before there was one.
        allocation: what register allocation cost, for each function that has any cost; empty where the optimisation
            record was not asked for.
    """

    sizes: ObjectSizes | None
    allocation: Mapping[str, AllocationCosts] = field(default_factory=dict)

    @classmethod
    def of(cls, compiled: Compiled) -> Measurement:
        """Measure a finished compile.

        Raises:
            CompilerError: of kind `object`: the object is no whole ELF file, or the record not of LLVM's form.
        """
        try:
            return cls(object_sizes(compiled.object_bytes), read_allocation_record(compiled.optimization_record))
        except MlgoError as error:
            message = f"clang ended well, and what it left cannot be measured: {error}"
            raise CompilerError(message, kind="object", exit_status=0, stderr=compiled.stderr) from error

    @classmethod
    def of_function(cls, function: str, remarks: str) -> Measurement:
        """Measure the allocation of one function, whose compile need not have gone on.

        Args:
            function: its name.
            remarks: what clang said since the function's first decision, with `allocation_remarks.REMARK_FLAGS`.

        Raises:
            MlgoError: clang did not say what it cost.
        """
        return cls(None, {function: read_allocation_remarks(remarks)})

    def named_sizes(self) -> dict[str, int]:
        """Return the sizes by their names in an episode's last `info`; none where there is no object file."""
        if self.sizes is None:
            return {}
        return dict(zip(SIZE_NAMES, (self.sizes.text, self.sizes.llvm_size, self.sizes.object), strict=True))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Measurement:
        """Build a measurement from `to_json()`'s result.

        Raises:
            KeyError, TypeError: the record is of another form.
        """
        costs = {function: AllocationCosts(*numbers) for function, numbers in value["allocation"].items()}
        return cls(ObjectSizes(**value["sizes"]), costs)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        assert self.sizes is not None, "what was ended early is no baseline"
        costs = {function: astuple(cost) for function, cost in self.allocation.items()}
        return {"sizes": asdict(self.sizes), "allocation": costs}
