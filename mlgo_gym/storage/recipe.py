"""A recipe: the inlining decisions of one module by their context, as a small text file.

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

First what it is for: the module, the SHA-256 of its bitcode, which is what the front end makes of the source before
any optimisation, the compiler and its flags (JSON, without input and output). Then the bytes of its executable sections
with these decisions and with the compiler's own, and how many compiles it took to find them. Then, in the order in
which clang asks, a line for each visit of the inliner to a component of the call graph: how often it was there before,
the answer to each of its questions (1 inlines, 0 keeps the call), and the component's functions. No such line says that
nothing was found that is smaller than what the compiler makes alone.

The answers of all lines in a row are those to all questions of the compile. As long as the bitcode, the compiler and
the flags are the same, so are the questions. A file is called `DIGEST.recipe`: `mlgo-clang --mlgo-recipes=FOLDER` finds
it by what its own front end makes of a source (`mlgo_clang.recipes`), and `mlgo-gym search --recipes FOLDER` writes the
same. The bitcode lies beside it, `DIGEST.bc`, so that `mlgo-gym recipes verify` and `mlgo-gym replay` need no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mlgo_clang.recipes import FIRST_LINE, SUFFIX
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import parse_json


class Visit(NamedTuple):
    """What is answered while the inliner is at a component.

    Attributes:
        component: its functions, separated by `", "`.
        visit: how often the inliner was there before.
        answers: to each question, 1 to inline and 0 to keep the call.
    """

    component: str
    visit: int
    answers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The inlining decisions of one module.

    Attributes:
        module: the module's name.
        digest: the SHA-256 of its bitcode, in hexadecimal.
        clang: the compiler's version, for instance `22.1.8`.
        flags: the `-cc1` arguments, without input, output and channels.
        text: the bytes of the executable sections with these decisions.
        baseline_text: those of a plain compile.
        visits: the decisions, in the order in which clang asks; none where the plain compile is the best that is known.
        compiles: how many compiles it took to find.
    """

    module: str
    digest: str
    clang: str
    flags: tuple[str, ...]
    text: int
    baseline_text: int
    visits: tuple[Visit, ...]
    compiles: int = 0

    @property
    def answers(self) -> tuple[int, ...]:
        """The answer to every question of the compile, in order."""
        return tuple(answer for visit in self.visits for answer in visit.answers)

    @property
    def change(self) -> float:
        """The relative change of the bytes against the compiler's own choices: -0.02 for 2 % less."""
        return self.text / self.baseline_text - 1 if self.baseline_text else 0.0

    def by_context(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """Return the answers by component and visit."""
        return {(visit.component, visit.visit): visit.answers for visit in self.visits}

    def check(self, digest: str, clang: str) -> None:
        """Check that it is for some bitcode and compiler.

        Args:
            digest: the SHA-256 of the bitcode, in hexadecimal.
            clang: the compiler's version.

        Raises:
            MlgoError: it is for others.
        """
        if digest != self.digest:
            raise MlgoError(
                f"the recipe is for bitcode of SHA-256 {self.digest}, and that of module {self.module!r} has {digest}: "
                "the source, its flags or the front end changed; search again"
            )
        if clang != self.clang:
            raise MlgoError(
                f"the recipe is for clang {self.clang}, and this is {clang}; name that one, or search again"
            )


def gather(decisions: Iterable[tuple[str, int, int]]) -> tuple[Visit, ...]:
    """Return the visits of some decisions: component, visit and answer of each, in the order in which clang asks."""
    return tuple(
        Visit(component, visit, tuple(answer for _, _, answer in group))
        for (component, visit), group in groupby(decisions, key=lambda decision: decision[:2])
    )


def write_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe to a file; whoever reads it sees all of it, or nothing."""
    lines = [
        FIRST_LINE,
        f"module {_escape(recipe.module)}",
        f"digest {recipe.digest}",
        f"clang {recipe.clang}",
        f"flags {json.dumps(list(recipe.flags))}",
        f"text {recipe.text} {recipe.baseline_text}",
        f"compiles {recipe.compiles}",
        "",
        *(f"{visit.visit} {''.join(map(str, visit.answers))} {_escape(visit.component)}" for visit in recipe.visits),
    ]
    write_atomically(Path(path), ("\n".join(lines) + "\n").encode(errors="surrogateescape"))


def keep_recipe(recipe: Recipe, folder: str | Path, bitcode: bytes) -> Path:
    """Write a recipe and its bitcode to a folder, unless there is one that is as small, and return the recipe's path.

    Any number of searches and builds may use the folder at once: each sees a whole recipe, or none.
    """
    path = Path(folder, f"{recipe.digest}{SUFFIX}")
    write_atomically(path.with_suffix(".bc"), bitcode)
    try:
        known = read_recipe(path)
    except MlgoError:  # there is none, or it is damaged
        known = None
    if known is None or (known.clang, known.flags) != (recipe.clang, recipe.flags) or recipe.text < known.text:
        write_recipe(recipe, path)
    return path


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe.

    Raises:
        MlgoError: the file is not there, or no recipe.
    """
    try:
        text = read_foreign(path).decode(errors="surrogateescape")
    except OSError as error:
        raise MlgoError(f"a recipe was to be read from {path}: {error}") from error
    head, _, body = text.partition("\n\n")
    first, *fields = head.split("\n")
    if first != FIRST_LINE:
        raise MlgoError(f"{path} was to be a recipe and begin with {FIRST_LINE!r}; it begins with {first[:80]!r}")
    known = {name: value for name, _, value in (line.partition(" ") for line in fields)}
    try:
        text_size, baseline = map(_count, known["text"].split(" "))
        flags = parse_json(known["flags"])
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise ValueError(f"its flags were to be a list of texts, found {known['flags'][:80]!r}")
        return Recipe(
            module=_unescape(known["module"]),
            digest=known["digest"],
            clang=known["clang"],
            flags=tuple(flags),
            text=text_size,
            baseline_text=baseline,
            visits=tuple(map(_visit, body.split("\n")[:-1])),
            compiles=_count(known["compiles"]),
        )
    except (KeyError, ValueError) as error:
        raise MlgoError(f"{path} was to be a recipe, and a line of it is not as it should be: {error}") from error


def _visit(line: str) -> Visit:
    visit, answers, component = line.split(" ", 2)
    if not answers or set(answers) - {"0", "1"}:
        raise ValueError(f"{line[:80]!r} was to have answers of 0 and 1")
    return Visit(_unescape(component), _count(visit), tuple(map(int, answers)))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text[:80]!r} was to be a number of 0 or more")
    return int(text)


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)
