"""What a decision could know beside clang's features: which function is called, and what was decided before.

Whether a function is dropped once nothing calls it any more, and whether earlier calls of it were kept, is what decides
most often whether inlining one more call of it makes a module smaller; clang's features say neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.session.inline_calls import INTERNAL, Call

SHARE = "module_share"
"""The one of `CALL_FEATURES` that is no whole number."""

MEANINGS = {
    "callee_linkage": "linkage of the callee: 0 internal, 1 linkonce, 2 weak, 3 available externally, 4 other",
    "callee_unnamed": "whether the callee's address does not matter",
    "callee_comdat": "whether the callee is in a group that the linker merges",
    "caller_linkage": "linkage of the caller, likewise",
    "callee_lines": "lines of code of the callee",
    "callee_calls": "how many of these are calls",
    "component_others": "other functions in the caller's component of the call graph",
    "component_visits": "how often the inliner was at the component before",
    "component_decisions": "decisions in this visit so far",
    "callee_kept": "calls of the callee that were kept so far",
    "callee_inlined": "calls of the callee that were inlined so far",
    "callee_users_left": "users of the callee less the calls of it that were kept",
    "callee_last": "whether nothing else uses the callee",
    "caller_inlined": "calls in the caller that were inlined so far",
    "caller_kept": "calls in the caller that were kept so far",
    "pair_inlined": "calls of this callee in this caller that were inlined so far",
    "pair_kept": "calls of this callee in this caller that were kept so far",
    "callee_inner_inlined": "calls in the callee that were inlined",
    "callee_inner_kept": "calls in the callee that were kept",
    "module_decisions": "decisions in the module so far",
    SHARE: "decisions in the module so far, for each of its functions",
}
"""What each says. The first six are the fields of `Call` (`callee_lines` is its `instructions`), and -1 is unknown."""

CALL_FEATURES = tuple(MEANINGS)
"""The names, in order."""

USED = ("callee_users", "node_count")
"""Clang's features that these are made of."""


def are_of_calls(features: Iterable[str]) -> bool:
    """Return whether some of these features are of calls."""
    return not set(CALL_FEATURES).isdisjoint(features)


class CallHistory:
    """The decisions of one episode so far."""

    def __init__(self) -> None:
        self._made = 0
        # By whom or what was called, and whether it was inlined.
        self._of_callee: Counter[tuple[str, bool]] = Counter()
        self._in_caller: Counter[tuple[str, bool]] = Counter()
        self._of_pair: Counter[tuple[str, str, bool]] = Counter()

    def add(self, context: str, callee: str, *, inlined: bool) -> None:
        """Note a decision.

        Args:
            context: the functions that the inliner was at.
            callee: the function that was called.
            inlined: the answer.
        """
        self._made += 1
        self._of_callee[callee, inlined] += 1
        self._in_caller[context, inlined] += 1
        self._of_pair[context, callee, inlined] += 1

    def features(self, context: str, visit: int, position: int, call: Call, users: float, functions: float) -> Floats:
        """Return the values of `CALL_FEATURES`, float32 of shape (21,).

        Args:
            context: the functions that the inliner is at.
            visit: how often it was there before.
            position: the number of the decision within this visit.
            call: the call.
            users: the feature `callee_users`.
            functions: the feature `node_count`.
        """
        callee = call.callee
        kept = self._of_callee[callee, False]
        # Clang counts the symbol of a function that others can see as one more use.
        uses = users - (call.linkage != INTERNAL)
        return np.array(
            (
                *(call.linkage, call.unnamed, call.comdat, call.caller_linkage, call.instructions, call.calls),
                *(context.count(", "), visit, position),
                *(kept, self._of_callee[callee, True], users - kept, uses <= 1),
                *(self._in_caller[context, True], self._in_caller[context, False]),
                *(self._of_pair[context, callee, True], self._of_pair[context, callee, False]),
                *(self._in_caller[callee, True], self._in_caller[callee, False]),
                *(self._made, self._made / max(1.0, functions)),
            ),
            np.float32,
        )


def features_of_calls(decisions: Sequence[PlacedDecision], dtype: np.dtype[Any]) -> Floats:
    """Return the values of `CALL_FEATURES` at all decisions of a compile, float32 of shape (decisions, 21).

    Args:
        decisions: all of them, in order, with their calls.
        dtype: that of an observation, as the compiler's header has it.

    Raises:
        MlgoError: nobody foretold the calls, or the compiler lacks a feature that these are made of.
    """
    lacking = [name for name in USED if name not in (dtype.names or ())]
    if lacking:
        raise MlgoError(f"features of calls are made of {', '.join(USED)}, and this clang lacks {', '.join(lacking)}")
    records = np.frombuffer(b"".join(decision.payload for decision in decisions), dtype)
    users, functions = (records[name][:, 0].astype(np.float64) for name in USED)
    history = CallHistory()
    rows = np.empty((len(decisions), len(CALL_FEATURES)), np.float32)
    for number, decision in enumerate(decisions):
        if decision.call is None:
            raise MlgoError("features of calls were wanted of a compile whose calls nobody foretold: have it foretell")
        place = decision[:3]
        rows[number] = history.features(*place, decision.call, float(users[number]), float(functions[number]))
        history.add(decision.component, decision.callee, inlined=bool(decision.answer))
    return rows
