"""Number formats of reports: sizes, changes, intervals, counts."""

from __future__ import annotations

from mlgo_gym.evaluation.intervals import Estimate
from mlgo_gym.tasks.measurement import BYTE_METRICS

_LONGEST = 46


def with_unit(metric: str) -> str:
    """Return a metric's name with its unit, such as `text bytes`; costs have no unit."""
    return f"{metric} bytes" if metric in BYTE_METRICS else metric


def number(value: float) -> str:
    """Return a size or a cost, rounded to an integer."""
    return f"{value:,.0f}"


def signed(value: float) -> str:
    """Return a difference of sizes or costs."""
    return f"{value:+,.0f}" if value else "0"


def percent(value: float) -> str:
    """Return a relative change: -0.02 is `-2.00 %`."""
    return f"{100 * value:+.2f} %" if value else "0"


def change(estimate: Estimate) -> str:
    """Return a relative change in percent with its interval: `-2.00 [-3.10, -0.90]`."""
    value = f"{100 * estimate.value:+.2f}" if estimate.value else "0"
    if estimate.interval is None or not any((estimate.value, *estimate.interval)):
        return value
    low, high = estimate.interval
    return f"{value} [{100 * low:+.2f}, {100 * high:+.2f}]"


def probability(estimate: Estimate) -> str:
    """Return a probability in percent with its interval: `62 % [55, 70]`."""
    ends = "" if estimate.interval is None else " [{:.0f}, {:.0f}]".format(*(100 * end for end in estimate.interval))
    return f"{100 * estimate.value:.0f} %{ends}"


def count(quantity: int, noun: str) -> str:
    """Return a count with its noun: `1 module`, `1,200 modules`."""
    return f"{quantity:,} {noun}{'s' * (quantity != 1)}"


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name of at most `longest` characters, its middle replaced by an ellipsis."""
    if len(name) <= longest:
        return name
    end = (longest - 1) * 2 // 3
    return f"{name[: longest - 1 - end]}…{name[-end:]}"
