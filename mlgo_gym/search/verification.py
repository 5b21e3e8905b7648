"""Verification of stored recipes: a compile of each module with its decisions."""

from pathlib import Path

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.episode.attribution.recipe import Recipe
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain

_SECONDS = 600.0
"""Seconds without a sign of life after which a clang is stopped."""


def verify_recipe(path: Path, recipe: Recipe, toolchain: Toolchain) -> str:
    """Compile the module beside a recipe with its decisions; return the problem, or an empty string.

    Recipes are untrusted input: flags that do more than shape code are not run. Raises `CompilerError` if clang fails.
    """
    bitcode = path.with_suffix(".bc")
    if not bitcode.is_file():
        return "its module is missing"
    module = Module(recipe.module, bitcode, recipe.flags)
    try:
        recipe.check(module.digest(), toolchain.version_text)
        compilation = plan(module, toolchain)
    except MlgoError as error:
        return str(error)
    answers, requests = iter(recipe.answers), 0

    def choose(_: Decision) -> bytes:
        nonlocal requests
        requests += 1
        return next(answers, 0).to_bytes(8, "little")

    with compilation.session((INLINING,) if recipe.answers else ()) as session:
        text = object_sizes(drive(session, choose, _SECONDS).object_bytes).text
    if requests != len(recipe.answers):
        return f"expected {len(recipe.answers)} requests, got {requests}"
    return "" if text == recipe.text else f"expected {recipe.text} bytes, got {text}"
