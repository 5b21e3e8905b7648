"""One compile of a source to an object: its commands, its temporary files, and its two steps."""

from __future__ import annotations

import os

from mlgo_clang.compiler import CLANG, Dialect, say
from mlgo_clang.counters import is_first_of_build
from mlgo_clang.link_facts import other_origin, own_functions, read_lines
from mlgo_clang.programs import SourceList, front_end_bitcode
from mlgo_clang.two_steps import TwoSteps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.invocation import Invocation
    from mlgo_clang.settings import Settings


class Job:
    """One source to compile to one object.

    The words `compiler` start the compiler with the arguments `rest`, alone with `command`. The words `clang` start the
    clang that builds native code, by default the compiler. `output` is empty for a compiler that writes other files.
    """

    def __init__(
        self,
        settings: Settings,
        invocation: Invocation,
        compiler: Sequence[str],
        rest: Sequence[str],
        dialect: Dialect = CLANG,
        clang: Sequence[str] = (),
    ) -> None:
        self.settings, self.invocation, self.dialect = settings, invocation, dialect
        self.compiler, self.rest, self.clang = compiler, rest, clang or compiler
        self.command = [*compiler, *rest]
        self._steps: TwoSteps | None = None
        self._bitcode = b""
        # C has no functions that several objects may define.
        self.may_change_linkage = settings.internal and dialect is CLANG and not invocation.source.endswith(".c")
        self.internal_functions = 0
        self.sources = SourceList()
        self.output = invocation.output
        if not self.output and dialect is CLANG:
            # Without `-o` clang writes the object to the current folder.
            self.output = f"{os.path.splitext(os.path.basename(invocation.source))[0]}.o"

    def bitcode(self) -> bytes:
        """Return the module before any optimisation, with the linkages of the compile; the front end runs once."""
        self._bitcode = self._bitcode or self.make_bitcode()
        if not self.changes_linkage:
            return self._bitcode
        from mlgo_clang.internal_linkage import make_internal

        return make_internal(self._bitcode, own_functions(read_lines(self.settings.link_facts)))[0]

    def make_bitcode(self) -> bytes:
        """Run the front end, and return the module; raise `PolicyError` if the source does not compile."""
        return front_end_bitcode([*self.compiler, *self.sources.read()], self.rest, self.settings.timeout)

    def explain(self, problem: str) -> str:
        """Return the problem of a compile with a policy, or the reason for it."""
        return problem

    def two_steps(self) -> TwoSteps:
        """Return the steps of the compile; the front end runs once for all policies."""
        if self._steps is None:
            self._steps = self.make_steps()
            if self.may_change_linkage and self._steps.exact:
                lines = read_lines(self.settings.link_facts)
                origin = other_origin(lines, self._steps.version, self._steps.triple)
                if origin and is_first_of_build(".facts"):
                    say(
                        f"warning: expected link facts of clang {self._steps.version} for {self._steps.triple}, got "
                        f"{self.settings.link_facts} of {origin}; all are used, which is safe, and the program may be "
                        "larger than with facts of its own plain build"
                    )
                self.internal_functions = self._steps.make_internal(own_functions(lines))
        return self._steps

    @property
    def changes_linkage(self) -> bool:
        """Whether the compile has two steps, because functions become internal between them."""
        return self.may_change_linkage and self.two_steps().exact

    def keep_linkage(self) -> None:
        """Start over without internal functions."""
        self.may_change_linkage, self.internal_functions, self._steps = False, 0, None

    def make_steps(self) -> TwoSteps:
        """Run the front end, and return the steps."""
        return TwoSteps([*self.compiler, *self.sources.read()], self.rest, self.settings.timeout)
