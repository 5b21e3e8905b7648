"""The calls about which two policies decide differently, and the bytes of each."""

from __future__ import annotations

from dataclasses import dataclass

from mlgo_gym.episode.credit import credit, differing
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision


@dataclass(frozen=True, slots=True)
class Difference:
    """One decision of the second policy that is not what the first one did there.

    Attributes:
        number: the number of the decision in the second policy's compile, from 0.
        decision: the decision, as the second policy made it.
        first: what the first policy answered there; None where it was never asked, because the call came in with code
            that only the second policy inlined. Then the second's answer is not clang's own.
        credited: by how many bytes it made the second policy's module larger than the first's, as credit estimates it.
        alone: whether no other difference reaches the functions that this is credited with.
        measured: the same exactly: the second policy's module, less that in which this decision alone is made
            otherwise; None where it was not measured.
    """

    number: int
    decision: PlacedDecision
    first: int | None
    credited: float
    alone: bool
    measured: int | None = None

    @property
    def place(self) -> tuple[str, int, int]:
        """Component, visit and position, as `CompilerEnv.counterfactual()` takes them."""
        return self.decision[:3]


def differences(first: PlacedCompile, second: PlacedCompile) -> list[Difference]:
    """Return the decisions of a compile that another one makes otherwise, those with most bytes first.

    The credited bytes of all of them add up to `second.text - first.text`.
    """
    given = credit(first, second)
    known = {(*decision[:3], decision.callee): decision.answer for decision in first.decisions}
    found = []
    for number in differing(first, second):
        decision = second.decisions[number]
        answer = known.get((*decision[:3], decision.callee))
        found.append(Difference(number, decision, answer, -float(given.bytes[number]), bool(given.exact[number])))
    return sorted(found, key=lambda each: (-abs(each.credited), each.number))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How near credit came to what was measured.

    Attributes:
        measured: how many differences were measured.
        equal: of these, how many are what credit said, within half a byte.
        same_sign: how many of those that changed anything, by either account, have the same sign.
        moved: how many those are.
    """

    measured: int
    equal: int
    same_sign: int
    moved: int


def agreement(found: list[Difference]) -> Agreement:
    """Return how near the credit of differences is to the bytes that were measured."""
    pairs = [(each.credited, each.measured) for each in found if each.measured is not None]
    moved = [(said, was) for said, was in pairs if was or abs(said) > 0.5]
    return Agreement(
        len(pairs),
        sum(abs(said - was) <= 0.5 for said, was in pairs),
        sum(said * was > 0 for said, was in moved),
        len(moved),
    )
