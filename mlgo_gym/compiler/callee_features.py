"""Callee features: facts about the predicted callee of an inlining decision, and about earlier decisions.

Two facts often decide whether inlining one more call makes a module smaller: whether the callee is dropped after its
last call, and whether earlier calls of it were kept. Clang's own features contain neither.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.link_facts import UNKNOWN, LinkFacts
from mlgo_gym.llvm.training_log import LogHeader, TensorSpec

INTERNAL, DISCARDABLE, WEAK, AVAILABLE, EXTERNAL = range(5)
"""Kinds of linkage. A function of the first two kinds is dropped when nothing calls it."""


class Call(NamedTuple):
    """A predicted call, with facts from the code that clang printed when the inliner first visited each function.

    Attributes:
        callee: Name of the callee; empty if unknown.
        linkage: Linkage of the callee: `INTERNAL`, `DISCARDABLE`, `WEAK`, `AVAILABLE` or `EXTERNAL`; -1 if unknown, as
            in the following fields.
        unnamed: 1 if the callee's address is insignificant, else 0.
        comdat: 1 if the callee is in a comdat group, else 0.
        instructions: Number of instructions in the callee.
        calls: Number of calls among them.
        caller_linkage: Linkage of the caller; in a component of several functions, of the first by name.
    """

    callee: str
    linkage: int
    unnamed: int
    comdat: int
    instructions: int
    calls: int
    caller_linkage: int


MODULE_SHARE = "module_share"
"""The only callee feature that is not a whole number."""

CALLEE_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "callee_linkage": "linkage of the callee: 0 internal, 1 linkonce, 2 weak, 3 available externally, 4 other",
        "callee_unnamed": "1 if the callee's address is insignificant (`unnamed_addr`), else 0",
        "callee_comdat": "1 if the callee is in a comdat group, which the linker merges, else 0",
        "caller_linkage": "linkage of the caller, coded as `callee_linkage`",
        "callee_lines": "instructions in the callee",
        "callee_calls": "calls among these instructions",
        "component_others": "other functions in the caller's component of the call graph",
        "component_visits": "earlier visits of the inliner to this component",
        "component_decisions": "earlier decisions in this visit",
        "callee_kept": "earlier calls of the callee that were kept",
        "callee_inlined": "earlier calls of the callee that were inlined",
        "callee_users_left": "users of the callee minus its kept calls",
        "callee_last": "1 if nothing else uses the callee, else 0",
        "caller_inlined": "earlier calls in the caller that were inlined",
        "caller_kept": "earlier calls in the caller that were kept",
        "pair_inlined": "earlier calls of this callee in this caller that were inlined",
        "pair_kept": "earlier calls of this callee in this caller that were kept",
        "callee_inner_inlined": "calls in the callee that were inlined",
        "callee_inner_kept": "calls in the callee that were kept",
        "module_decisions": "earlier decisions in the module",
        MODULE_SHARE: "earlier decisions in the module, divided by its functions",
        "callee_copies": "objects of the build that define the callee, from link facts",
        "callee_references": "references to the callee in the build, from link facts",
    }
)
"""Names and meanings, in the order of the observation. -1 means unknown."""

SOURCE_FEATURES = ("callee_users", "node_count")
"""Features of clang that callee features are computed from."""


def uses_callee_features(features: Iterable[str]) -> bool:
    """Return whether some of the names are callee features."""
    return not set(CALLEE_FEATURES).isdisjoint(features)


@lru_cache(maxsize=64)
def with_callee_features(header: LogHeader) -> LogHeader:
    """Extend the header of an inlining channel by float32 tensors of shape (1,), or raise `ToolchainError`."""
    if missing := [name for name in SOURCE_FEATURES if name not in {spec.name for spec in header.features}]:
        raise ToolchainError(
            f"expected a clang with the features {', '.join(SOURCE_FEATURES)} for callee features, got one without "
            f"{', '.join(missing)}; use callee_features=False"
        )
    return replace(header, features=(*header.features, *(TensorSpec(name, "float", (1,)) for name in CALLEE_FEATURES)))


_FEATURES = struct.Struct(f"<{len(CALLEE_FEATURES)}f")
_NEVER = (0, 0)

Pair: TypeAlias = tuple[str | None, str | None]
"""Caller, a component, and callee; None is any."""


class DecisionHistory:
    """The decisions of one compile so far, counted by caller and callee."""

    def __init__(self) -> None:
        # Numbers of kept and of inlined calls.
        self._counts: dict[Pair, list[int]] = {}

    def add(self, context: str, callee: str, *, inlined: bool) -> None:
        """Add a decision about a call of `callee` in the component `context`."""
        for pair in ((None, None), (None, callee), (context, None), (context, callee)):
            self._counts.setdefault(pair, [0, 0])[inlined] += 1

    def features(
        self, site: DecisionSite, call: Call, users: int, functions: int, facts: LinkFacts | None = None
    ) -> bytes:
        """Return the callee features of a decision, float32; `users` and `functions` are the `SOURCE_FEATURES`."""
        callee, context = call.callee, site.context
        count = self._counts.get
        kept, inlined = count((None, callee), _NEVER)
        caller_kept, caller_inlined = count((context, None), _NEVER)
        pair_kept, pair_inlined = count((context, callee), _NEVER)
        inner_kept, inner_inlined = count((callee, None), _NEVER)
        decisions = sum(count((None, None), _NEVER))
        # Clang counts the symbol of an externally visible function as one more use.
        uses = users - (call.linkage != INTERNAL)
        return _FEATURES.pack(
            *(call.linkage, call.unnamed, call.comdat, call.caller_linkage, call.instructions, call.calls),
            *(len(site.functions) - 1, site.visit, site.index),
            *(kept, inlined, users - kept, uses <= 1),
            *(caller_inlined, caller_kept, pair_inlined, pair_kept, inner_inlined, inner_kept),
            *(decisions, decisions / max(1, functions)),
            *(UNKNOWN if facts is None else facts.of(callee)),
        )

    def copy(self) -> DecisionHistory:
        """Return an independent copy."""
        copied = DecisionHistory()
        copied._counts = {pair: counts.copy() for pair, counts in self._counts.items()}
        return copied
