"""Recipes: what search found for a module, by the digest of what the front end makes of its source.

`mlgo_gym.storage.recipe` says what is in the file `DIGEST.recipe`, and reads all of it. A build needs its answers
alone: the same module asks the same clang the same questions in the same order, and one that asks fewer or more is
another.
"""

from __future__ import annotations

import os
import stat
import subprocess

from mlgo_clang.policies import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.conversation import Decide
    from mlgo_clang.header import Header

FIRST_LINE = "mlgo-gym recipe 1"
"""What every recipe begins with."""

SUFFIX = ".recipe"
"""How the name of every recipe ends; before that, it is the digest of the module."""

_LONGEST = 1 << 24

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


class RecipeError(PolicyError):
    """A recipe that cannot be read, or is not of the module at hand."""


class Recipe:
    """The answers for one module.

    Attributes:
        answers: a 0 or 1 for each question, in order; none where clang alone makes the smallest object that is known.
    """

    __slots__ = ("answers",)

    def __init__(self, answers: str) -> None:
        self.answers = answers

    def bind(self, _header: Header) -> Decide:
        """Return what gives the answers in order."""
        answers = iter(self.answers)

        def decide(_data: bytes, _start: int) -> int:
            answer = next(answers, None)
            if answer is None:
                raise RecipeError("the module asks more than there are answers")
            return int(answer)

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
    # What the date is expanded to would make another module of a source every day.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    result = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, capture_output=True, check=False)
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
    path = os.path.join(folder, f"{digest}{SUFFIX}")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n", opener=_without_waiting) as file:
            # The name may be that of a pipe, which nobody writes to, or of a device without an end.
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RecipeError(f"the recipe {path} is no regular file")
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise RecipeError(f"the recipe {path} has more than {_LONGEST:,} characters")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecipeError(f"the recipe {path} cannot be read: {error}") from error
    return parse_recipe(text, digest)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def was_used(folder: str, digest: str) -> None:
    """Note that a recipe was used, for `mlgo-gym recipes prune`."""
    try:
        os.utime(os.path.join(folder, f"{digest}{SUFFIX}"))
    except OSError:
        return


def parse_recipe(text: str, digest: str) -> Recipe:
    """Return the answers in the contents of a recipe.

    Raises:
        RecipeError: it is no recipe, or one of another module.
    """
    head, blank, body = text.partition("\n\n")
    first, *fields = head.split("\n")
    if first != FIRST_LINE or not blank:
        raise RecipeError(f"a recipe begins with {FIRST_LINE!r}, and this with {first[:80]!r}")
    found = next((field.partition(" ")[2] for field in fields if field.startswith("digest ")), "")
    if found != digest:
        raise RecipeError(f"the recipe is of the module {found[:12]}, not of {digest[:12]}")
    try:
        answers = "".join([line.split(" ", 2)[1] for line in body.split("\n")[:-1]])
    except IndexError:
        answers = "?"
    if answers.strip("01"):
        raise RecipeError(f"the recipe of {digest[:12]} was to have answers of 0 and 1; remove it")
    return Recipe(answers)


def search_recipe(
    folder: str, source: str, bitcode: bytes, compiles: int, clang: str, policy: str, command: Sequence[str]
) -> str:
    """Search a module and keep the recipe; return what went wrong, or nothing.

    Args:
        folder: where recipes are.
        source: the source, of which the recipe tells whoever reads it.
        bitcode: the module.
        compiles: how many compiles the search may take.
        clang: the compiler, as `mlgo-gym` takes it.
        policy: what decides without a recipe, as `mlgo-gym` takes it; nothing for clang alone.
        command: the whole command line of clang.
    """
    import sys

    process = [sys.executable, "-m", "mlgo_gym.deploy.recipe_search", folder, source, str(compiles), clang, policy]
    process += command
    result = subprocess.run(process, input=bitcode, capture_output=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
    return ""
