"""Recipes: what search found for a module, by the digest of what the front end makes of its source.

A recipe is a file `DIGEST.json` with an answer for each question of clang. The same module asks the same clang the same
questions in the same order, so it is replayed by their numbers; a module that asks fewer or more is another.
"""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mlgo_clang.conversation import Decide
    from mlgo_clang.header import Header

FORMAT = "mlgo-gym recipe 1"

_SIDE_OUTPUTS = frozenset(("-MD", "-MMD", "-MP", "-MG", "-MV", "-pipe", "-c"))
_SIDE_OUTPUTS_WITH_VALUE = frozenset(("-o", "-MF", "-MT", "-MQ", "--serialize-diagnostics", "-serialize-diagnostics"))
_SIDE_OUTPUTS_JOINED = (
    "-o",
    "-MF",
    "-MT",
    "-MQ",
    "-fsave-optimization-record",
    "-foptimization-record",
    "-gsplit-dwarf",
)


class RecipeError(Exception):
    """A recipe that cannot be read, or is not of the module at hand."""


class Recipe:
    """The answers for one module.

    Attributes:
        digest: that of the module.
        answers: one for each question, in order; None where clang alone makes the smallest object that is known.
    """

    __slots__ = ("answers", "digest")

    def __init__(self, digest: str, answers: Sequence[int] | None) -> None:
        self.digest = digest
        self.answers = None if answers is None else tuple(answers)

    def bind(self, _header: Header) -> Decide:
        """Return who gives the answers in order."""
        answers = iter(self.answers or ())

        def decide(_data: bytes, _start: int) -> int:
            answer = next(answers, None)
            if answer is None:
                raise RecipeError("the module asks more than its recipe answers")
            return answer

        return decide


def front_end_bitcode(compiler: Sequence[str], rest: Sequence[str]) -> bytes:
    """Return what the front end makes of a source, before any optimisation, without what only a debugger reads.

    Args:
        compiler: the words that start clang.
        rest: the arguments of the compile.

    Raises:
        RecipeError: the front end refuses the source; the compile will say why.
    """
    kept = []
    words = iter(rest)
    for word in words:
        if word in _SIDE_OUTPUTS_WITH_VALUE:
            next(words, None)
        elif word not in _SIDE_OUTPUTS and not word.startswith(_SIDE_OUTPUTS_JOINED):
            kept.append(word)
    flags = ["-c", "-emit-llvm", "-g0", "-w", "-Xclang", "-disable-llvm-passes", "-Xclang", "-emit-llvm-uselists"]
    # Before a `--` in the arguments; and -g0 behind what they say of debugging.
    end = kept.index("--") if "--" in kept else len(kept)
    command = [*compiler, *kept[:end], *flags, "-o", "-", *kept[end:]]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if result.returncode != 0 or not result.stdout:
        raise RecipeError("the front end made no module of the source")
    return result.stdout


def digest_of(bitcode: bytes) -> str:
    """Return the SHA-256 of a module, in hexadecimal; its bitcode names the compiler's version."""
    import hashlib

    return hashlib.sha256(bitcode).hexdigest()


def read_recipe(folder: str, digest: str) -> Recipe | None:
    """Return the recipe of a module; None where there is none.

    Args:
        folder: where recipes are.
        digest: that of the module.

    Raises:
        RecipeError: it cannot be read, or is of another module.
    """
    path = os.path.join(folder, f"{digest}.json")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecipeError(f"the recipe {path} cannot be read: {error}") from error
    return parse_recipe(content, digest)[0]


def was_used(folder: str, digest: str) -> None:
    """Note that a recipe was used, for `mlgo-gym recipes prune`."""
    try:
        os.utime(os.path.join(folder, f"{digest}.json"))
    except OSError:
        return


def parse_recipe(content: bytes, digest: str) -> tuple[Recipe, dict[str, Any]]:
    """Return the recipe in the contents of a file, and all that the file says.

    Raises:
        RecipeError: it is no recipe, or one of another module.
    """
    import json

    try:
        data = json.loads(content)
        if data["format"] != FORMAT:
            raise ValueError(data["format"])
        answers = data["answers"]
        recipe = Recipe(data["module"], None if answers is None else [int(character) for character in answers])
        if set(recipe.answers or ()) - {0, 1}:
            raise ValueError("answers are 0 and 1")
    except (ValueError, LookupError, TypeError) as error:
        raise RecipeError(f"a recipe ({FORMAT!r}) was wanted, and it is of another form ({error!r})") from error
    if recipe.digest != digest:
        raise RecipeError(f"the recipe is of the module {recipe.digest[:12]}, not of {digest[:12]}")
    return recipe, data


def search_recipe(
    folder: str, digest: str, bitcode: bytes, compiles: int, clang: str, policy: str, command: Sequence[str]
) -> str:
    """Search a module and keep the recipe; return what went wrong, or nothing.

    Args:
        folder: where recipes are.
        digest: that of the module.
        bitcode: the module.
        compiles: how many compiles the search may take.
        clang: the compiler, as `mlgo-gym` takes it.
        policy: what decides without a recipe, as `mlgo-gym` takes it; nothing for clang alone.
        command: the whole command line of clang.
    """
    import sys

    process = [sys.executable, "-m", "mlgo_gym.deploy.recipe_search", folder, digest, str(compiles), clang, policy]
    process += command
    result = subprocess.run(process, input=bitcode, capture_output=True, check=False)
    if result.returncode != 0:
        return result.stderr.decode(errors="replace").strip()[-500:] or "the search failed"
    return ""
