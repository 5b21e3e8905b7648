"""Clang's own decision, for a policy that reads it, where LLVM does not compute it.

The interactive channel has the feature `inlining_default`. Release mode does not, and development mode has an input of
that name that stays 0 (MLInlineAdvisor.cpp and DevelopmentModeInlineAdvisor.cpp, both of llvm/lib/Analysis). There,
clang's own choice is taken to be what it nearly is: that the estimated cost is below the threshold of the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlgo_gym.deploy.decision_code import DEFAULT
from mlgo_gym.errors import PolicyError

THRESHOLDS = {"Oz": 5, "Os": 50}
"""`OptMinSizeThreshold` and `OptSizeThreshold` of llvm/Analysis/InlineCost.h.

Of the labelled decisions of docs/results/labels, clang's choice is another in 23 of 49,199 at -Oz, where a nested call
changed the cost on the way; and in 3,174 of 62,525 at -Os, where functions that the source calls inline have a
threshold that no feature tells of. See docs/exports.md for what that does to the policies in the box.
"""

_BOXED = "inline-"


@dataclass(frozen=True, slots=True)
class ClangsChoice:
    """How clang's own decision is known: it inlines where a feature is below a number.

    Attributes:
        below: the number.
        feature: the name of clang's decision.
        of: the name of the feature.
    """

    below: int
    feature: str = DEFAULT
    of: str = "cost_estimate"

    def __str__(self) -> str:
        return f"{self.feature} is taken to be {self.of} < {self.below}"


def clangs_choice(policy: str, features: Sequence[str], level: str | None = None) -> ClangsChoice | None:
    """Return how clang's own decision is known to a policy; None for one that does not read it.

    Args:
        policy: as the user wrote it.
        features: what it reads.
        level: `Oz` or `Os`; None: that of a policy in the box.

    Raises:
        PolicyError: it reads clang's decision, and nobody says at which level it is to decide.
    """
    if level is not None and level not in THRESHOLDS:
        raise PolicyError(f"a level is one of {', '.join(THRESHOLDS)}, found {level!r}")
    if DEFAULT not in features:
        return None
    named = policy.removeprefix(_BOXED).capitalize() if policy.startswith(_BOXED) else None
    chosen = level or named
    if chosen not in THRESHOLDS:
        raise PolicyError(
            f"the policy {policy} reads {DEFAULT}, which LLVM computes neither in release nor in development mode; "
            "say with --level, Oz or Os, where it is to decide, and clang's decision is taken to be that the estimated "
            f"cost is below the threshold there; or train one without it: mlgo-gym train clone --expert {policy}"
        )
    return ClangsChoice(THRESHOLDS[chosen])
