"""What has come out so far of something that goes through modules, for the line of progress."""

from __future__ import annotations

import math
from collections import defaultdict

_MOST = 3


class RunningChanges:
    """The mean change against clang of several policies, as modules come in; smaller is better."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, name: str, value: float, baseline: float) -> str:
        """Count a module.

        Args:
            name: who decided; empty where that is clear.
            value: what the module costs.
            baseline: what it costs by clang alone.

        Returns:
            The geometric means so far, as `inline-oz -1.10 %`, of three policies at most.
        """
        self._sums[name] += math.log((1.0 + value) / (1.0 + baseline))
        self._counts[name] += 1
        return str(self)

    def __str__(self) -> str:
        shown = list(self._sums)[:_MOST]
        text = ", ".join(f"{name} {math.expm1(self._sums[name] / self._counts[name]):+.2%}".strip() for name in shown)
        return text + (", …" if len(self._sums) > _MOST else "")
