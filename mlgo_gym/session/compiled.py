"""What a finished compile leaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a finished compile left.

    Attributes:
        object_bytes: the object file.
        optimization_record: the optimisation record (YAML), empty unless it was asked for.
        stderr: the tail of standard error.
    """

    object_bytes: bytes
    optimization_record: bytes
    stderr: str
