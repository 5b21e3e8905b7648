"""Symbols as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from mlgo_gym.errors import MissingExtraError, MlgoError

_NOISE = re.compile(r"\[abi:\w+\]|(?<=std::)__\w+::")
"""What a person does not look for in a name: ABI tags, and the inline namespaces of standard libraries."""

_PARTS = re.compile(r"operator(?:\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)|\(anonymous namespace\)|[<>()]")


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str]:
    """Return the C++ runtime's own demangler.

    Raises:
        MissingExtraError: cxxfilt is not installed.
        MlgoError: there is no C++ runtime on this machine.
    """
    try:
        import cxxfilt
    except ImportError as error:
        raise MissingExtraError("showing names of C++ functions", "explain") from error
    invalid, missing = cxxfilt.InvalidName, cxxfilt.LibraryNotFound
    try:
        cxxfilt.demangle("_Z1fv")
    except missing as error:
        raise MlgoError(
            f"the C++ runtime's demangler was wanted, and there is none ({error}): install libstdc++ or libc++abi"
        ) from error

    def demangle(symbol: str) -> str:
        try:
            name: str = cxxfilt.demangle(symbol)
        except invalid:
            return symbol
        return name

    return demangle


@lru_cache(maxsize=65536)
def readable(symbol: str) -> str:
    """Return a function's symbol as its source has it: `_Z1fv` is `f()`. What is not mangled is returned as it is.

    ABI tags and inline namespaces of standard libraries, as in `std::__1::string`, are left out.

    Raises:
        MissingExtraError: the symbol is mangled, and cxxfilt is not installed.
        MlgoError: the symbol is mangled, and this machine has no C++ runtime.
    """
    return _NOISE.sub("", _demangler()(symbol)) if symbol.startswith(("_Z", "__Z")) else symbol


def readable_component(component: str) -> str:
    """Return a component of the call graph, symbols with `", "` between, as a person reads it."""
    first, *others = component.split(", ")
    return readable(first) + (f" and {len(others)} more that call each other" if others else "")


def short_component(component: str, most: int) -> str:
    """Return a component in at most so many characters: its first function, and how many others there are."""
    first, *others = component.split(", ")
    more = f" +{len(others)}" if others else ""
    return shortened(readable(first), most - len(more)) + more


def shortened(name: str, most: int) -> str:
    """Return a readable name in at most so many characters: without template arguments and parameters.

    Where that is too long, scopes are left out from the left, and then the end of what is left.

    `std::vector<int>::push_back(int const&)` is `std::vector::push_back`.
    """
    plain: list[str] = []
    depth = 0
    at = 0
    for found in _PARTS.finditer(name):
        if depth == 0:
            plain.append(name[at : found.start()])
        at = found.end()
        part = found.group()
        if part in ("<", "("):
            depth += 1
        elif part in (">", ")"):
            depth = max(depth - 1, 0)
        elif depth == 0:
            plain.append("{anonymous}" if part == "(anonymous namespace)" else part)
    if depth == 0:
        plain.append(name[at:])
    text = "".join(plain).strip()
    # A template's name comes after its return type.
    text = text if " operator" in f" {text}" else text.removesuffix(" const").split(" ")[-1] or text
    scopes = text.split("::")
    while len(text) > most and len(scopes) > 1:
        del scopes[0]
        text = "::".join(scopes)
    return text if len(text) <= most else f"{text[: most - 1]}…"
