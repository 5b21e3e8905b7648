r"""Recipes: text files with the inlining decisions of one module by their sites.

    mlgo-gym recipe 1
    module deflate
    digest 3f6a…
    clang 22.1.8
    flags ["-cc1", "-Oz", …]
    text 10240 11264
    compiles 50

    0 0110 deflate_fast
    0 1 longest_match
    1 00 deflate_fast

docs/reference/file_formats.md explains the lines. A line `metric NAME` is of a search by another metric than `text`. In
the names of modules and contexts `\n`, `\r` and `\\` stand for a line break, a carriage return and a backslash. The
actions of all lines in a row answer all decisions of the compile; the same bitcode, compiler and flags request the same
decisions. A recipe without such lines means that the search found nothing smaller than clang's own decisions.
"""

from __future__ import annotations

import os

from mlgo_clang.errors import PolicyError
from mlgo_clang.files import read_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlgo_clang.channel import Bind, Decide
    from mlgo_clang.protocol import Header

    Visit = tuple[int, list[int], str]
    """Number of the visit, decisions, and context."""

SUFFIX = ".recipe"
"""Suffix of every recipe's name; the rest of the name is the module's digest."""

_FIRST_LINE = "mlgo-gym recipe 1"


def format_recipe(fields: Mapping[str, str], visits: Iterable[Visit]) -> str:
    """Return the text of a recipe with some lines in its header."""
    lines = [_FIRST_LINE]
    lines += [f"{name} {_escape(value) if name == 'module' else value}" for name, value in fields.items()]
    lines.append("")
    for visit, decisions, context in visits:
        lines.append(f"{visit} {''.join(map(str, decisions))} {_escape(context)}")
    return "\n".join((*lines, ""))


def parse_recipe(text: str) -> tuple[dict[str, str], list[Visit]]:
    """Return the lines of a recipe's header by their first words, and its visits, or raise `PolicyError`."""
    head, blank, body = text.partition("\n\n")
    first, *lines = head.split("\n")
    if first != _FIRST_LINE or not blank:
        raise PolicyError(f"expected a recipe that begins with {_FIRST_LINE!r}, got {first[:80]!r}")
    fields = {name: value for name, _, value in (line.partition(" ") for line in lines)}
    if "module" in fields:
        fields["module"] = _unescape(fields["module"])
    fields.setdefault("metric", "text")
    return fields, [_parse_visit(line) for line in body.split("\n")[:-1]]


def _parse_visit(line: str) -> Visit:
    try:
        visit, text, context = line.split(" ", 2)
        if not text or set(text) - {"0", "1"}:
            raise ValueError("expected actions of 0 and 1")
        return read_count(visit), [int(decision) for decision in text], _unescape(context)
    except ValueError as error:
        raise PolicyError(f"expected a visit and its decisions in a recipe, got {line[:80]!r}: {error}") from None


def read_count(text: str) -> int:
    """Return the number ≥ 0 in a recipe, or raise a ValueError."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a number ≥ 0, got {text[:80]!r}")
    return int(text)


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)


def stored_decisions(folder: str, digest: str) -> list[int] | None:
    """Return all decisions in the recipe of a module; None without one.

    Raises `PolicyError` if the recipe cannot be read, or belongs to another module.
    """
    path = os.path.join(folder, f"{digest}{SUFFIX}")
    try:
        text = read_untrusted(path).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PolicyError(f"the recipe {path} cannot be read: {error}") from error
    fields, visits = parse_recipe(text)
    owner = fields.get("digest", "")
    if owner != digest:
        raise PolicyError(f"expected the recipe of the module {digest[:12]}, got that of {owner[:12]}; remove {path}")
    return [decision for _, decisions, _ in visits for decision in decisions]


def replay(decisions: Sequence[int]) -> Bind:
    """Return the maker of a server that gives some decisions in order."""

    def bind(_header: Header) -> Decide:
        remaining = iter(decisions)

        def decide(_observation: bytes) -> int:
            decision = next(remaining, None)
            if decision is None:
                raise PolicyError(f"clang requests more than the {len(decisions)} decisions of the recipe")
            return decision

        return decide

    return bind
