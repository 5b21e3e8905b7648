"""The policies `clang:FLAGS`: nobody decides anything, clang compiles with other flags.

This is what one would do instead of learning, for instance `clang:-mllvm,-inline-threshold=20`.
"""

from __future__ import annotations

import shlex

from mlgo_gym.errors import PolicyError

PREFIX = "clang:"


def plain_clang_flags(spec: str) -> tuple[str, ...]:
    """Return the `-cc1` arguments in `clang:FLAGS`, which has commas between them, or blanks, as in a shell.

    Raises:
        PolicyError: there are no flags, or a quotation is not closed.
    """
    text = spec.removeprefix(PREFIX)
    try:
        flags = shlex.split(text) if " " in text else text.split(",")
    except ValueError as error:
        raise PolicyError(f"the flags of {spec!r} cannot be told apart: {error}; close the quotation") from error
    if not flags or not all(flags):
        raise PolicyError(
            f"a plain clang with other flags was wanted, found {spec!r}; write the flags with commas between them, for "
            "instance clang:-mllvm,-inline-threshold=20"
        )
    return tuple(flags)
