"""Recipes: the decisions that a search found for a module, by the digest of the module.

`mlgo_gym.episode.attribution.recipe` documents and writes the file `DIGEST.recipe`. A build reads only its decisions:
the same module and the same clang give the same requests in the same order.
"""

from __future__ import annotations

import os

from mlgo_clang.errors import PolicyError
from mlgo_clang.files import read_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.header import Header
    from mlgo_clang.servers import Decide

FIRST_LINE = "mlgo-gym recipe 1"
SUFFIX = ".recipe"
EVICTION = "eviction"
_LONGEST = 1 << 24


class Recipe:
    """The decisions for one module.

    Args:
        decisions: the decisions in order: of the inliner a `0` or `1`, of evictions a column; none if nothing better
            than clang's own object is known.
        evicts: whether they are evictions.
    """

    __slots__ = ("decisions", "evicts")

    def __init__(self, decisions: Sequence[str], *, evicts: bool = False) -> None:
        self.decisions = decisions
        self.evicts = evicts

    def bind(self, header: Header) -> Decide:
        """Return the function that gives the decisions in order."""
        remaining = iter(self.decisions)
        mask = header.tensors.get("mask")

        def decide(data: bytes, start: int) -> int:
            decision = next(remaining, None)
            if decision is None:
                raise PolicyError(f"clang requests more than the {len(self.decisions)} decisions of the recipe")
            number = int(decision)
            # LLVM does not check a column.
            if mask is not None and not (number < mask.count and data[start + mask.offset + 8 * number]):
                raise PolicyError(f"clang cannot take column {number} of the recipe here; search again")
            return number

        return decide


def digest_of(bitcode: bytes) -> str:
    """Return the SHA-256 of a module in hexadecimal; the bitcode contains the compiler's version."""
    import hashlib

    return hashlib.sha256(bitcode).hexdigest()


def read_recipe(folder: str, digest: str) -> Recipe | None:
    """Return the recipe of a module in a folder; None if there is none.

    Raises:
        PolicyError: the recipe cannot be read, or belongs to another module.
    """
    path = os.path.join(folder, f"{digest}{SUFFIX}")
    try:
        text = read_untrusted(path, _LONGEST).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PolicyError(f"the recipe {path} cannot be read: {error}") from error
    return parse_recipe(text, digest)


def mark_used(folder: str, digest: str) -> None:
    """Set the time of a recipe's last use, for `mlgo-gym recipes prune`."""
    try:
        os.utime(os.path.join(folder, f"{digest}{SUFFIX}"))
    except OSError:
        return


def parse_recipe(text: str, digest: str) -> Recipe:
    """Return the recipe in the contents of a file.

    Raises:
        PolicyError: the text is no recipe, or the recipe of another module.
    """
    head, blank, body = text.partition("\n\n")
    first, *fields = head.split("\n")
    if first != FIRST_LINE or not blank:
        raise PolicyError(f"expected a recipe with the first line {FIRST_LINE!r}, got {first[:80]!r}")
    found = next((field.partition(" ")[2] for field in fields if field.startswith("digest ")), "")
    if found != digest:
        raise PolicyError(f"expected the recipe of the module {digest[:12]}, got that of {found[:12]}")
    evicts = f"advisor {EVICTION}" in fields
    try:
        parts = [line.split(" ", 2)[1] for line in body.split("\n")[:-1]]
    except IndexError:
        parts = ["?"]
    decisions: Sequence[str] = ",".join(parts).split(",") if evicts and parts else "".join(parts)
    if not all(each.isascii() and each.isdigit() for each in decisions) if evicts else "".join(decisions).strip("01"):
        raise PolicyError(
            f"expected {'columns' if evicts else 'decisions of 0 and 1'} in the recipe of {digest[:12]}, got others; "
            "remove the file"
        )
    return Recipe(decisions, evicts=evicts)
