"""A recipe: a text file with the decisions of one module by their sites, of the inliner or on evictions.

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

The header names the module, the SHA-256 of its bitcode before any optimisation, the compiler and its flags (JSON,
without input and output). `text` has the bytes of the executable sections with the recipe and with clang's own
decisions; `compiles` is the number of compiles of the search. After the blank line, each line is one visit of the
inliner to a context, in clang's order: the visit, the actions (1 inlines, 0 keeps the call), and the context. A recipe
without such lines says that the search found nothing smaller than clang's own decisions.

A recipe of evictions has two more lines in its header, `advisor eviction` and `cost`: the cost by the metric of the
search, with the recipe and by a plain compile. Each of its lines is a function: `0`, the columns with commas between,
the digest of the first request, and the function. Equal code before allocation gives equal requests, so a search of a
changed module finds the columns of its unchanged functions. It measures them before it keeps them.

The actions of all lines in a row answer all decisions of the compile; the same bitcode, compiler and flags request the
same decisions. The file is called `DIGEST.recipe`. `mlgo-clang --mlgo-recipes=FOLDER` finds it by the digest of the
bitcode that its front end makes of a source (`mlgo_clang.recipes`), and `mlgo-gym search --recipes FOLDER` writes the
same format. The bitcode `DIGEST.bc` lies next to it, so `mlgo-gym recipes verify` and `mlgo-gym replay` need only the
folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import EVICTION, INLINING
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

FIRST_LINE = "mlgo-gym recipe 1"
"""First line of every recipe, as in `mlgo_clang.recipes`."""

SUFFIX = ".recipe"
"""Suffix of every recipe's name; the rest of the name is the module's digest."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The decisions of one module.

    Attributes:
        module: Name of the module.
        digest: SHA-256 of the bitcode, in hexadecimal.
        clang: Version of the compiler, for instance `22.1.8`.
        flags: The `-cc1` arguments, without input, output and channels.
        text: Bytes of the executable sections with these decisions.
        baseline_text: Bytes of the executable sections of a plain compile.
        actions: The action at each decision site, in clang's order; empty if the plain compile is the best found.
        compiles: Number of compiles of the search.
        advisor: Name of the advisor, `inlining` or `eviction`.
        cost: Cost with these decisions, and that of a plain compile, by another metric than bytes; None for bytes.
        functions: Digest of the first request in each function (`AllocationCompile.digests`); only of evictions.
    """

    module: str
    digest: str
    clang: str
    flags: tuple[str, ...]
    text: int
    baseline_text: int
    actions: Mapping[DecisionSite, int]
    compiles: int = 0
    advisor: str = INLINING.name
    cost: tuple[float, float] | None = None
    functions: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[int, ...]:
        """The actions, in clang's order."""
        return tuple(self.actions.values())

    @property
    def change(self) -> float:
        """Relative change of the cost against clang's own decisions: -0.02 is 2 % less."""
        cost, baseline = self.cost or (self.text, self.baseline_text)
        return cost / baseline - 1 if baseline else 0.0

    def check(self, digest: str, clang: str) -> None:
        """Check that the recipe belongs to a bitcode, by its SHA-256, and to a version of the compiler.

        Raises:
            MlgoError: The recipe belongs to another bitcode or compiler.
        """
        if digest != self.digest:
            raise MlgoError(
                f"expected bitcode with SHA-256 {self.digest} for this recipe, got module {self.module!r} with "
                f"{digest}: the source, its flags or the front end changed; search again"
            )
        if clang != self.clang:
            raise MlgoError(
                f"expected clang {self.clang} for this recipe, got clang {clang}; use that clang, or search again"
            )


def write_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe to a file, atomically."""
    lines = [
        FIRST_LINE,
        f"module {_escape(recipe.module)}",
        f"digest {recipe.digest}",
        f"clang {recipe.clang}",
        f"flags {json.dumps(list(recipe.flags))}",
        f"text {recipe.text} {recipe.baseline_text}",
        f"compiles {recipe.compiles}",
    ]
    separator = ""
    if recipe.advisor != INLINING.name:
        lines.append(f"advisor {recipe.advisor}")
        separator = ","
    if recipe.cost is not None:
        lines.append("cost {!r} {!r}".format(*recipe.cost))
    lines.append("")
    for (context, visit), decisions in groupby(recipe.actions.items(), key=lambda each: each[0][:2]):
        digest = f"{recipe.functions[context]} " if separator else ""
        lines.append(f"{visit} {separator.join(str(action) for _, action in decisions)} {digest}{_escape(context)}")
    write_atomically(Path(path), ("\n".join(lines) + "\n").encode(errors="surrogateescape"))


def keep_recipe(recipe: Recipe, folder: str | Path, bitcode: bytes) -> Path:
    """Write a recipe and its bitcode to a folder, unless the folder has one that is as good.

    Searches and builds may use the folder at the same time; all writes are atomic.

    Returns:
        The path of the recipe.

    Raises:
        MlgoError: The folder has a recipe of the other advisor for this module.
    """
    path = Path(folder, f"{recipe.digest}{SUFFIX}")
    write_atomically(path.with_suffix(".bc"), bitcode)
    try:
        stored = read_recipe(path)
    except MlgoError:  # absent or damaged
        stored = None
    if stored is not None and stored.advisor != recipe.advisor:
        raise MlgoError(
            f"expected no recipe of {stored.advisor} for {recipe.module}, got {path}; use another folder for "
            f"recipes of {recipe.advisor}"
        )
    if stored is None or (stored.clang, stored.flags) != (recipe.clang, recipe.flags) or recipe.change < stored.change:
        write_recipe(recipe, path)
    return path


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe.

    Raises:
        MlgoError: The file cannot be read, or is not a recipe.
    """
    try:
        text = read_untrusted(path).decode(errors="surrogateescape")
    except OSError as error:
        raise MlgoError(f"cannot read the recipe {path}: {error}") from error
    head, _, body = text.partition("\n\n")
    first, *lines = head.split("\n")
    if first != FIRST_LINE:
        raise MlgoError(f"expected a recipe that begins with {FIRST_LINE!r}, got {first[:80]!r} in {path}")
    fields = {name: value for name, _, value in (line.partition(" ") for line in lines)}
    try:
        text_size, baseline = map(_count, fields["text"].split(" "))
        flags = parse_json(fields["flags"])
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise ValueError(f"expected flags as a list of strings, got {fields['flags'][:80]!r}")
        advisor, cost = fields.get("advisor", INLINING.name), None
        if advisor not in (INLINING.name, EVICTION.name):
            raise ValueError(f"expected the advisor {INLINING.name} or {EVICTION.name}, got {advisor[:80]!r}")
        if "cost" in fields:
            with_recipe, plain = map(float, fields["cost"].split(" "))
            cost = with_recipe, plain
        actions, functions = _actions(body.split("\n")[:-1], advisor)
        return Recipe(
            module=_unescape(fields["module"]),
            digest=fields["digest"],
            clang=fields["clang"],
            flags=tuple(flags),
            text=text_size,
            baseline_text=baseline,
            actions=actions,
            compiles=_count(fields["compiles"]),
            advisor=advisor,
            cost=cost,
            functions=functions,
        )
    except (KeyError, ValueError) as error:
        raise MlgoError(f"expected a recipe in {path}, got a damaged line: {error}") from error


def _actions(lines: list[str], advisor: str) -> tuple[dict[DecisionSite, int], dict[str, str]]:
    """Return the actions by their sites, and of evictions the digests of the functions."""
    actions: dict[DecisionSite, int] = {}
    functions: dict[str, str] = {}
    for line in lines:
        visit, text, context = line.split(" ", 2)
        answers: Sequence[str] = text
        if advisor == EVICTION.name:
            answers = text.split(",")
            digest, context = context.split(" ", 1)
            functions[_unescape(context)] = digest
        elif not text or set(text) - {"0", "1"}:
            raise ValueError(f"expected actions of 0 and 1, got {line[:80]!r}")
        for index, answer in enumerate(answers):
            site = DecisionSite(_unescape(context), _count(visit), index)
            if site in actions:
                raise ValueError(f"expected each visit once, got {line[:80]!r} twice")
            actions[site] = _count(answer)
    return actions, functions


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a number ≥ 0, got {text[:80]!r}")
    return int(text)


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)
