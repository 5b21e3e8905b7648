"""A question that clang asks."""

from __future__ import annotations

from typing import NamedTuple

from mlgo_gym.session.inline_calls import Call


class Decision(NamedTuple):
    """A question whose answer clang waits for.

    Attributes:
        advisor: the position of the asking advisor among the session's.
        context: the function (register allocation); for inlining the component of the call graph, where the session
            follows it, and else nothing.
        number: that of the question within its context, or within the visit of a component, from 0.
        payload: the features, the bytes of one observation in header order.
        visit: how often clang had come to the component before.
        call: the call that an inlining decision is about, where the session foretells it.
    """

    advisor: int
    context: str
    number: int
    payload: bytes
    visit: int = 0
    call: Call | None = None
