"""What one finished compile achieved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.object_file import ObjectSizes, object_sizes
from mlgo_gym.session import Compiled


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one compile achieved.

    Attributes:
        sizes: the sizes of its object file.
    """

    sizes: ObjectSizes

    @classmethod
    def of(cls, compiled: Compiled) -> Measurement:
        """Measure a finished compile.

        Raises:
            MlgoError: the object is not an ELF file.
        """
        return cls(object_sizes(compiled.object_bytes))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Measurement:
        """Build a measurement from `to_json()`'s result.

        Raises:
            KeyError, TypeError: the record is of another form.
        """
        return cls(ObjectSizes(**value["sizes"]))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {"sizes": asdict(self.sizes)}
