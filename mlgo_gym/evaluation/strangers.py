"""The environment of results or of a trace that somebody else may have written: nothing in it is run without trust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mlgo_gym
from mlgo_gym.corpus.allowed import check_arguments
from mlgo_gym.errors import UntrustedError
from mlgo_gym.policies.plain_clang import plain_clang_flags


def recorded_arguments(
    origin: str,
    environment: str,
    arguments: Mapping[str, Any],
    *,
    corpus: str | None,
    plain: Iterable[str] = (),
    trust: bool,
) -> dict[str, Any]:
    """Return the arguments of an environment that a file names, checked as those of a stranger.

    Args:
        origin: whose they are, for messages.
        environment: the id of the environment.
        arguments: its arguments.
        corpus: the corpus, where the file names it; None where the user does.
        plain: the plain clangs with other flags that are to be run.
        trust: whether to run all of it as it is.

    Raises:
        UntrustedError: running it could do more than compile; the text says why.
    """
    kept = {**arguments, "trust": trust}
    if trust:
        return kept
    if environment not in mlgo_gym.ENVIRONMENTS:
        raise UntrustedError(f"{origin}: {environment!r} would be imported; if you know who wrote it, say --trust")
    if corpus is not None and "pypi:" in corpus:
        raise UntrustedError(
            f"{origin}: its corpus {corpus!r} is made by running a package's own build; fetch that yourself and name "
            "it with --corpus, or say --trust"
        )
    for words in (kept.get("extra_flags") or (), *map(plain_clang_flags, plain)):
        check_arguments(("-cc1", *words), origin)
    if kept.get("flags"):
        check_arguments(tuple(kept["flags"]), origin)
    return kept
