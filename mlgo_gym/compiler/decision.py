"""A decision that clang requests, and its site."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mlgo_gym.compiler.decision_code import DecisionCode


def functions_of(context: str) -> tuple[str, ...]:
    """Return the functions of an inlining context, a strongly connected component of the call graph."""
    return tuple(context.split(", "))


class DecisionSite(NamedTuple):
    """A decision of a module, identified independently of the decisions elsewhere in the module.

    Attributes:
        context: For register allocation the function. For inlining the functions of the strongly connected component
            of the call graph that contains the call, in alphabetical order, separated by `", "`; clang names at most
            ten. Empty for inlining where the session does not follow contexts.
        visit: Number of earlier visits of the inliner to the component; 0 for register allocation.
        index: Number of earlier decisions in this visit; in the function for register allocation.
    """

    context: str
    visit: int
    index: int  # type: ignore[assignment] # it hides a method of tuples

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the context."""
        return functions_of(self.context)


class Decision(NamedTuple):
    """A decision that clang requests and waits for.

    Attributes:
        advisor: Index of the requesting advisor in the session's advisors.
        site: Site of the decision.
        payload: Bytes of one observation, in header order.
        callee: Predicted callee of an inlining decision, empty where unknown; None without callee features. With callee
            features the payload ends with them.
        code: Code and call graph of an inlining decision while it is pending; None if the session does not read code.
    """

    advisor: int
    site: DecisionSite
    payload: bytes
    callee: str | None = None
    code: DecisionCode | None = None

    @property
    def context(self) -> str:
        """The context of the site."""
        return self.site.context
