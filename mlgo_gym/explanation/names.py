"""Readable names of functions."""

from __future__ import annotations

import re
from functools import lru_cache

from mlgo_gym.compiler.decision import functions_of
from mlgo_gym.extras import library

# ABI tags, the inline namespaces of standard libraries, and the hash of a Rust function.
_NOISE = re.compile(r"\[abi:\w+\]|(?<=std::)__\w+::|::h[0-9a-f]{16}$")

_PARTS = re.compile(r"operator(?:\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)|\(anonymous namespace\)|[<>()]")

_MORE = "..."
"""Name that clang prints instead of the eleventh function of a context and those after it."""


@lru_cache(maxsize=65536)
def readable(symbol: str) -> str:
    """Return the demangled name of a symbol of C++ or Rust, without ABI tags and inline namespaces: `_Z1fv` is `f()`.

    Raises `MissingExtraError` if the symbol is mangled, and pydemumble is not installed.
    """
    if not symbol.startswith(("_Z", "__Z", "_R")):
        return symbol
    demangled: str = library("pydemumble", "showing names of C++ and Rust functions", "explain").demangle(symbol)
    return _NOISE.sub("", demangled) or symbol


def _first_and_others(context: str) -> tuple[str, str]:
    """Return the first function of a context and the number of others, with a `+` if clang printed only some."""
    named = [function for function in functions_of(context) if function != _MORE]
    others = f"{len(named) - 1}{'+' if _MORE in functions_of(context) else ''}"
    return readable(named[0]), "" if others == "0" else others


def readable_context(context: str) -> str:
    """Return a readable name of a context."""
    first, others = _first_and_others(context)
    return first + (f" and {others} more that call each other" if others else "")


def short_context(context: str, width: int) -> str:
    """Return the first function of a context and the number of others, in at most `width` characters."""
    first, others = _first_and_others(context)
    suffix = f" +{others}" if others else ""
    return shortened(first, width - len(suffix)) + suffix


def shortened(name: str, width: int) -> str:
    """Return a readable name in at most `width` characters, without template arguments and parameters.

    A longer name loses scopes from the left, then its end. `std::vector<int>::push_back(int const&)` becomes
    `std::vector::push_back`.
    """
    name = _without_trait(name)
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
    # The brackets of a Rust implementation leave an empty scope.
    text = "".join(plain).strip().replace("::::", "::").strip(":")
    # The name of a template follows its return type.
    text = text if " operator" in f" {text}" else text.removesuffix(" const").split(" ")[-1] or text
    scopes = text.split("::")
    while len(text) > width and len(scopes) > 1:
        del scopes[0]
        text = "::".join(scopes)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _without_trait(name: str) -> str:
    """Return the name of a Rust method with the type instead of `<TYPE as TRAIT>`."""
    if not name.startswith("<"):
        return name
    depth = 0
    for at, character in enumerate(name):
        # The `>` of a function type `fn() -> T` closes no bracket.
        depth += (character == "<") - (character == ">" and name[at - 1] != "-")
        if depth == 0:
            of_type, trait, _ = name[1:at].rpartition(" as ")
            return _without_trait(of_type if trait else name[1:at]) + name[at + 1 :]
    return name
