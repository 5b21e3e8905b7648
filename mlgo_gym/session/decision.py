"""A question that clang asks."""

from __future__ import annotations

from typing import NamedTuple


class Decision(NamedTuple):
    """A question that clang waits with.

    Attributes:
        advisor: the position of the asking advisor among the session's.
        context: the function (register allocation), empty for inlining.
        number: that of the question within its context, from 0.
        payload: the features, the bytes of one observation in header order.
    """

    advisor: int
    context: str
    number: int
    payload: bytes
