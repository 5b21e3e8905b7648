"""Choice of the parameters that every run tests; the others are slow."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def one_of_each(
    cases: Iterable[Case], *kinds: Callable[[Case], object], name: Callable[[Case], str] = str
) -> list[Any]:
    """Return the cases as parameters: each that is the first of some kind as it is, all others as slow tests.

    Args:
        cases: cases; a tuple gives several parameters.
        kinds: functions that return the kind of a case; every kind that one of them finds is tested in each run.
        name: function that returns the name of a case in reports.
    """
    seen: set[tuple[int, object]] = set()
    found = []
    for case in cases:
        of_case = {(number, kind(case)) for number, kind in enumerate(kinds)}
        marks = [] if of_case - seen else [pytest.mark.slow]
        seen |= of_case
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, id=name(case), marks=marks))
    return found
