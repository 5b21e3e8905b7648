"""Makes environments by id, also from arguments that an untrusted file names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym

import mlgo_gym
from mlgo_gym.corpus.flags import check_arguments
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import COMPILE_OPTIONS, with_compile_options
from mlgo_gym.errors import MlgoError, UntrustedError


def compiler_environments() -> list[str]:
    """Return the ids of the environments that run a compiler."""
    return [name for name in mlgo_gym.ENVIRONMENTS if name not in mlgo_gym.APPROXIMATIONS]


def make_environment(name: str, arguments: Mapping[str, Any]) -> CompilerEnv:
    """Return an environment of this package that runs a compiler, by its id, without wrappers; else `MlgoError`."""
    if (approximated := mlgo_gym.APPROXIMATIONS.get(name.removeprefix("mlgo_gym:"))) is not None:
        raise MlgoError(f"expected an environment with a compiler, got {name!r}; use {approximated}")
    try:
        env = gym.make(name, disable_env_checker=True, **arguments).unwrapped
    except gym.error.Error as error:
        known = ", ".join(compiler_environments())
        raise MlgoError(f"expected one of {known}, got {name!r} ({error})") from error
    except TypeError as error:
        raise MlgoError(f"{name} does not take the arguments {dict(arguments)}: {error}; correct them") from error
    if not isinstance(env, CompilerEnv):
        raise MlgoError(f"expected an environment of mlgo-gym, got {name!r} ({type(env).__name__}); choose another")
    return env


def recorded_arguments(
    origin: str,
    environment: str,
    arguments: Mapping[str, Any],
    *,
    corpus: str | None,
    extra_flags: Iterable[Sequence[str]] = (),
    trust_flags: bool,
) -> dict[str, Any]:
    """Return the arguments of an environment that an untrusted file records, after a check.

    Args:
        origin: Name of the file, for messages.
        environment, arguments: As recorded.
        corpus: Recorded corpus; None if the user names another.
        extra_flags: Further recorded flags that will be run, one sequence per compile.
        trust_flags: Whether to skip the check.

    Raises:
        UntrustedError: Running the arguments could do more than compile.
    """
    checked = with_compile_options(arguments, trust_flags=trust_flags)
    if trust_flags:
        return checked
    if environment not in compiler_environments():
        raise UntrustedError(f"{origin}: {environment!r} would be imported; if you know its author, pass --trust-flags")
    if corpus is not None and "pypi:" in corpus:
        raise UntrustedError(
            f"{origin}: the corpus {corpus!r} runs the build of a package; fetch it yourself and name it with "
            "--corpus, or pass --trust-flags"
        )
    entries = checked[COMPILE_OPTIONS]
    for words in (entries.get("extra_flags") or (), *extra_flags):
        check_arguments(("-cc1", *words), origin)
    if entries.get("flags"):
        check_arguments(tuple(entries["flags"]), origin)
    return checked
