"""Clang's own inlining decision for export targets in which LLVM does not compute it.

The interactive channel has the feature `inlining_default`. Release mode does not. Development mode has an input of that
name that stays 0 (MLInlineAdvisor.cpp and DevelopmentModeInlineAdvisor.cpp of llvm/lib/Analysis). There the estimated
cost and the threshold of the level replace the feature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT

THRESHOLDS = {"Oz": 5, "Os": 50}
"""`OptMinSizeThreshold` and `OptSizeThreshold` of llvm/Analysis/InlineCost.h.

In the bundled labels the replacement differs from clang's decision 23 times of 49,199 at -Oz, where a
nested call changed the cost. At -Os it differs 3,174 times of 62,525, since functions declared inline have another
threshold that no feature contains. docs/how_to/other_compilers.md shows the effect on the bundled policies.
"""

_BUNDLED = re.compile(r"inline-(o[sz])-fast")


@dataclass(frozen=True, slots=True)
class DefaultRule:
    """Replaces the feature `inlining_default`: clang inlines if the cost is below a threshold.

    The threshold is in LLVM's inline-cost units.
    """

    threshold: int
    feature: ClassVar[str] = INLINING_DEFAULT
    cost: ClassVar[str] = "cost_estimate"

    def __str__(self) -> str:
        return f"{self.feature} is replaced by {self.cost} < {self.threshold}"


def default_rule(policy: str, features: Sequence[str], level: str | None = None) -> DefaultRule | None:
    """Return the rule that replaces `inlining_default` for a policy; None if the policy does not use the feature.

    The level is `Oz` or `Os`, or None for that of a bundled policy.

    Raises:
        PolicyError: the policy uses the feature, and the level is unknown.
    """
    if level is not None and level not in THRESHOLDS:
        raise PolicyError(f"expected a level of {', '.join(THRESHOLDS)}, got {level!r}")
    if INLINING_DEFAULT not in features:
        return None
    bundled = _BUNDLED.fullmatch(policy)
    chosen = level or (bundled and bundled[1].capitalize())
    if chosen not in THRESHOLDS:
        raise PolicyError(
            f"{policy} uses {INLINING_DEFAULT}, which LLVM computes in neither release nor development mode; replace "
            "it by the estimated cost with --level Oz or --level Os, or train a policy without it: "
            f"mlgo-gym train clone --expert {policy}"
        )
    return DefaultRule(THRESHOLDS[chosen])
