"""How reports write numbers, changes and their intervals."""

from __future__ import annotations

from mlgo_gym.evaluation.intervals import Estimate

_UNITS = {"text_size": "text bytes", "llvm_size": "llvm-size bytes", "object_size": "object bytes"}
_LONGEST = 46


def unit(measure: str) -> str:
    """Return the heading of a column of a measure."""
    return _UNITS.get(measure, measure.replace("_", " "))


def number(value: float) -> str:
    """Return a size or a cost, rounded to a whole number."""
    return f"{value:,.0f}"


def signed(value: float) -> str:
    """Return a difference of sizes."""
    return f"{value:+,.0f}" if value else "0"


def percent(value: float) -> str:
    """Return a relative change: -0.02 is `-2.00 %`."""
    return f"{100 * value:+.2f} %" if value else "0"


def change(estimate: Estimate) -> str:
    """Return a relative change in percent with its interval, for a column that says so: `-2.00 [-3.10, -0.90]`."""
    value = f"{100 * estimate.value:+.2f}" if estimate.value else "0"
    if estimate.interval is None or not any((estimate.value, *estimate.interval)):
        return value
    low, high = estimate.interval
    return f"{value} [{100 * low:+.2f}, {100 * high:+.2f}]"


def probability(estimate: Estimate) -> str:
    """Return a probability in percent with its interval: `62 % [55, 70]`."""
    value = f"{100 * estimate.value:.0f} %"
    if estimate.interval is None:
        return value
    low, high = estimate.interval
    return f"{value} [{100 * low:.0f}, {100 * high:.0f}]"


def count(quantity: int, thing: str) -> str:
    """Return how many things there are: `1 module`, `1,200 modules`."""
    return f"{quantity:,} {thing}{'s' * (quantity != 1)}"


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name whose middle is left out where it is too long for a column."""
    if len(name) <= longest:
        return name
    end = (longest - 1) * 2 // 3
    return f"{name[: longest - 1 - end]}…{name[-end:]}"
