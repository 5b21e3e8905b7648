"""Readable names of functions, and signed numbers."""

import re
from functools import lru_cache

from mlgo_gym.compiler.decision import functions_of
from mlgo_gym.extras import library

# ABI tags, the inline namespaces of standard libraries, and the hash of a Rust function.
_NOISE = re.compile(r"\[abi:\w+\]|(?<=std::)__\w+::|::h[0-9a-f]{16}$")

_NO_BRACKETS = re.compile(r"operator(?:\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)|->")
"""Parts of a name whose characters are no brackets."""

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


def short_context(context: str, width: int) -> str:
    """Return the first function of a context and the number of others, in at most `width` characters.

    The number has a `+` if clang printed only some of them.
    """
    functions = functions_of(context)
    named = [function for function in functions if function != _MORE]
    others = f"{len(named) - 1}{'+' if _MORE in functions else ''}"
    suffix = "" if others == "0" else f" +{others}"
    return shortened(readable(named[0]), width - len(suffix)) + suffix


def shortened(name: str, width: int) -> str:
    """Return a readable name in at most `width` characters, without template arguments and parameters.

    A longer name loses scopes from the left, then its end. `std::vector<int>::push_back(int const&)` becomes
    `std::vector::push_back`, and Rust's `<alloc::vec::Vec<u8> as core::clone::Clone>::clone` `alloc::vec::Vec::clone`.
    """
    parts: list[str] = []

    def hide(part: re.Match[str]) -> str:
        parts.append(part.group())
        return f"\0{len(parts) - 1}\0"

    text, before = _NO_BRACKETS.sub(hide, name.replace("(anonymous namespace)", "{anonymous}")), ""
    while text != before:
        before, text = text, re.sub(r"(?<!^)<[^<>()]*>|\([^<>()]*\)", "", text)
    text = re.sub(r"^<(.*?)(?: as .*)?>", r"\1", text)  # a method of Rust
    # The brackets of a Rust implementation leave an empty scope.
    text = text.strip().replace("::::", "::").strip(":")
    # The name of a template follows its return type.
    if not re.search(r" \0|operator ", f" {text}"):
        text = text.removesuffix(" const").split(" ")[-1] or text
    text = re.sub(r"\0(\d+)\0", lambda part: parts[int(part[1])], text)
    scopes = text.split("::")
    while len(text) > width and len(scopes) > 1:
        del scopes[0]
        text = "::".join(scopes)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def signed(value: float) -> str:
    """Return a whole number with its sign, a real minus."""
    return f"{value:+,.0f}".replace("-", "\N{MINUS SIGN}")
