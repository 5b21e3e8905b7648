"""The policies `clang:FLAGS`: nobody decides anything, clang compiles with other flags.

This is what one would do instead of learning, for instance `clang:-mllvm,-inline-threshold=20`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from mlgo_gym.baseline import baseline_session
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.measurement import Measurement

PREFIX = "clang:"


@dataclass(frozen=True, slots=True)
class PlainClang:
    """A plain compile with flags after those of the module.

    Attributes:
        flags: the `-cc1` arguments.
    """

    flags: tuple[str, ...]

    @classmethod
    def from_spec(cls, spec: str) -> PlainClang:
        """Return what `clang:FLAGS` names; flags have commas between them, or blanks, as in a shell.

        Raises:
            PolicyError: there are no flags, or a quotation is not closed.
        """
        text = spec.removeprefix(PREFIX)
        try:
            flags = shlex.split(text) if " " in text else text.split(",")
        except ValueError as error:
            raise PolicyError(f"the flags of {spec!r} cannot be told apart: {error}; close the quotation") from error
        if not all(flags) or not flags:
            raise PolicyError(
                f"a plain clang with other flags was wanted, found {spec!r}; write the flags with commas between "
                "them, for instance clang:-mllvm,-inline-threshold=20"
            )
        return cls(tuple(flags))

    def compile(self, env: CompilerEnv, module: Module, timeout: float) -> Measurement:
        """Return what such a compile of a module achieves, with the compiler and the flags of an environment.

        Args:
            env: whose compiler and flags to use.
            module: what to compile.
            timeout: the longest wait for it, in seconds.

        Raises:
            CompilerError: the compile fails.
        """
        compilation = env.compilation(module)
        changed = replace(compilation, flags=(*compilation.flags, *self.flags))
        with baseline_session(changed, record=env.task.record) as session:
            return Measurement.of(session.finish(timeout))
