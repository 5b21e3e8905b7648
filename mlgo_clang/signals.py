"""The module `signal` without its enumerations, whose import takes a quarter of the start of a driver."""

from __future__ import annotations

__all__ = ["signal"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal
