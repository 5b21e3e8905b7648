"""What one finished compile achieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from mlgo_gym.allocation_record import AllocationCosts, read_allocation_record
from mlgo_gym.object_file import ObjectSizes, object_sizes
from mlgo_gym.session import Compiled


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one compile achieved.

    Attributes:
        sizes: the sizes of its object file.
        allocation: what register allocation cost, for each function that has any cost; empty where the optimisation
            record was not asked for.
    """

    sizes: ObjectSizes
    allocation: Mapping[str, AllocationCosts] = field(default_factory=dict)

    @classmethod
    def of(cls, compiled: Compiled) -> Measurement:
        """Measure a finished compile.

        Raises:
            MlgoError: the object is not an ELF file, or the record not of LLVM's form.
        """
        return cls(object_sizes(compiled.object_bytes), read_allocation_record(compiled.record))

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
        costs = {function: astuple(cost) for function, cost in self.allocation.items()}
        return {"sizes": asdict(self.sizes), "allocation": costs}
