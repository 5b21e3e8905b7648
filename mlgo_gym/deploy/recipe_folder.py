"""Recipes in a folder: written, listed, verified, pruned. Beside each lies its module's bitcode, for verification."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mlgo_clang.recipes import RecipeError, digest_of, parse_recipe
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import write_atomically

SECONDS = 600.0
"""How long the clang of a verification may be silent."""


@dataclass(frozen=True, slots=True)
class StoredRecipe:
    """A recipe with all that is known of it; the fields of its file.

    Attributes:
        format: that of the file.
        module: the digest of the module.
        answers: a 0 or 1 for each question; None where nothing was found that is smaller than what clang makes alone.
        text: the bytes of the executable sections.
        clang_text: those of what clang makes alone.
        compiles: how many compiles it took to find.
        clang: the version of the compiler.
        flags: the module's `-cc1` arguments.
    """

    format: str
    module: str
    answers: str | None
    text: int
    clang_text: int
    compiles: int
    clang: str
    flags: tuple[str, ...]


def write_recipe(folder: Path, recipe: StoredRecipe, bitcode: bytes) -> Path:
    """Keep a recipe and its module, and return the recipe's path; a reader sees all of it or nothing."""
    write_atomically(folder / f"{recipe.module}.bc", bitcode)
    path = folder / f"{recipe.module}.json"
    write_atomically(path, (json.dumps(asdict(recipe), indent=1) + "\n").encode())
    return path


def stored_recipes(folder: Path) -> Iterator[tuple[Path, StoredRecipe | None]]:
    """Yield the path of each recipe with what is in it; None where it is damaged.

    Raises:
        CorpusError: there is no such folder.
    """
    if not folder.is_dir():
        raise CorpusError(f"{folder} was to be a folder of recipes, and there is none; mlgo-clang makes it")
    for path in sorted(folder.glob("*.json")):
        yield path, _read(path)


def _read(path: Path) -> StoredRecipe | None:
    try:
        _, data = parse_recipe(path.read_bytes(), path.stem)
        return StoredRecipe(**{**data, "flags": tuple(data["flags"])})
    except (RecipeError, TypeError, KeyError):
        return None


def verify_recipe(folder: Path, recipe: StoredRecipe, toolchain: Toolchain) -> str:
    """Compile a recipe's module by it; return what is wrong, or nothing.

    Raises:
        CompilerError: clang fails.
    """
    bitcode = folder / f"{recipe.module}.bc"
    if not bitcode.is_file():
        return "its module is not there"
    if digest_of(bitcode.read_bytes()) != recipe.module:
        return "its module is another"
    if toolchain.version_text != recipe.clang:
        return f"it is of clang {recipe.clang}, and this is {toolchain.version_text}"
    compilation = plan(Module(recipe.module, bitcode, recipe.flags), toolchain)
    answers = [int(character).to_bytes(8, "little") for character in recipe.answers or ""]
    advisors = () if recipe.answers is None else (INLINING,)
    with Session(compilation.command, advisors) as session:
        asked = 0
        while session.wait(SECONDS) is not None:
            if asked == len(answers):
                return f"the module asks more than {asked} questions"
            session.advise(answers[asked])
            asked += 1
        text = object_sizes(session.finish(SECONDS).object_bytes).text
    if asked != len(answers):
        return f"the module asks {asked} questions, and it has {len(answers)} answers"
    if text != recipe.text and (recipe.answers is not None or recipe.text):
        return f"it makes {text} bytes, and was to make {recipe.text}"
    return ""


def prune_recipes(folder: Path, days: float) -> int:
    """Remove damaged recipes, those that were not used for so many days, and modules without a recipe.

    Returns:
        How many recipes were removed.

    Raises:
        CorpusError: there is no such folder.
        MlgoError: the number of days is negative.
    """
    if days < 0:
        raise MlgoError(f"recipes are kept for a number of days, found {days:g}")
    oldest = time.time() - days * 86400
    removed = 0
    for path, recipe in list(stored_recipes(folder)):
        if recipe is None or path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
            removed += 1
    for bitcode in folder.glob("*.bc"):
        if not bitcode.with_suffix(".json").exists():
            bitcode.unlink(missing_ok=True)
    return removed
