"""Recipes in a folder: listed, verified, pruned. Beside each lies its module's bitcode, for verification."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from mlgo_clang.recipes import SUFFIX
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError, MlgoError, UntrustedError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.session import Session
from mlgo_gym.storage.recipe import Recipe, read_recipe

SECONDS = 600.0
"""How long the clang of a verification may be silent."""


def stored_recipes(folder: Path) -> Iterator[tuple[Path, Recipe | None]]:
    """Yield the path of each recipe with what is in it; None where it is damaged, or of another module than its name.

    Raises:
        CorpusError: there is no such folder.
    """
    if not folder.is_dir():
        raise CorpusError(f"{folder} was to be a folder of recipes, and there is none; mlgo-clang makes it")
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            recipe = read_recipe(path)
        except MlgoError:
            recipe = None
        yield path, recipe if recipe is not None and recipe.digest == path.stem else None


def verify_recipe(path: Path, recipe: Recipe, toolchain: Toolchain) -> str:
    """Compile the module beside a recipe by its answers; return what is wrong, or nothing.

    A recipe can be a stranger's, so its flags are run only if they do nothing but shape code.

    Args:
        path: the recipe's file.
        recipe: what is in it.
        toolchain: the compiler.

    Raises:
        CompilerError: clang fails.
    """
    bitcode = path.with_suffix(".bc")
    if not bitcode.is_file():
        return "its module is not there"
    if hashlib.sha256(bitcode.read_bytes()).hexdigest() != recipe.digest:
        return "its module is another"
    if toolchain.version_text != recipe.clang:
        return f"it is of clang {recipe.clang}, and this is {toolchain.version_text}"
    try:
        compilation = plan(Module(recipe.module, bitcode, recipe.flags), toolchain)
    except UntrustedError as error:
        return str(error)
    answers = [answer.to_bytes(8, "little") for answer in recipe.answers]
    with Session(
        compilation.command, (INLINING,) if answers else (), confined=compilation.confined, limits=compilation.limits
    ) as session:
        asked = 0
        while session.wait(SECONDS) is not None:
            if asked == len(answers):
                return f"the module asks more than {asked} questions"
            session.advise(answers[asked])
            asked += 1
        text = object_sizes(session.finish(SECONDS).object_bytes).text
    if asked != len(answers):
        return f"the module asks {asked} questions, and it has {len(answers)} answers"
    return "" if text == recipe.text else f"it makes {text} bytes, and was to make {recipe.text}"


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
        if not bitcode.with_suffix(SUFFIX).exists():
            bitcode.unlink(missing_ok=True)
    return removed
