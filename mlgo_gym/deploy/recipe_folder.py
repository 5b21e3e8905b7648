"""Recipes in a folder: list, verify and prune them. The bitcode beside each recipe is for verification."""

from __future__ import annotations

import time
from pathlib import Path

from mlgo_clang.recipes import SUFFIX
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.program import SECONDS
from mlgo_gym.episode.attribution.recipe import Recipe, stored_recipes
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import EVICTION, INLINING
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain


def verify_recipe(path: Path, recipe: Recipe, toolchain: Toolchain) -> str:
    """Compile the module beside a recipe with its decisions; return the problem, or an empty string.

    Recipes are untrusted input: flags that do more than shape code are not run.

    Raises:
        CompilerError: clang fails.
    """
    bitcode = path.with_suffix(".bc")
    if not bitcode.is_file():
        return "its module is missing"
    return replay_recipe(recipe, Module(recipe.module, bitcode, recipe.flags), toolchain)


def replay_recipe(recipe: Recipe, module: Module, toolchain: Toolchain) -> str:
    """Compile the module of a recipe with its decisions; return the problem, or an empty string.

    Raises:
        CompilerError: clang fails.
    """
    try:
        recipe.check(module.digest(), toolchain.version_text)
        compilation = plan(module, toolchain)
    except MlgoError as error:
        return str(error)
    answers, requests = iter(recipe.answers), 0
    advisor = EVICTION if recipe.advisor == EVICTION.name else INLINING

    def choose(decision: Decision) -> bytes:
        nonlocal requests
        requests += 1
        answer = next(answers, None)
        return session.any_answer(decision) if answer is None else answer.to_bytes(8, "little")

    with compilation.session((advisor,) if recipe.answers else ()) as session:
        text = object_sizes(drive(session, choose, SECONDS).object_bytes).text
    if requests != len(recipe.answers):
        return f"expected {len(recipe.answers)} requests, got {requests}"
    return "" if text == recipe.text else f"expected {recipe.text} bytes, got {text}"


def prune_recipes(folder: Path, days: float) -> int:
    """Remove damaged recipes, recipes unused for a number of days (≥ 0), and modules without a recipe.

    Returns:
        Number of removed recipes.

    Raises:
        CorpusError: there is no such folder.
        MlgoError: the number of days is negative.
    """
    if days < 0:
        raise MlgoError(f"expected a number of days ≥ 0, got {days:g}")
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
