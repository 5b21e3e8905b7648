"""Search the decisions of one module for `mlgo-clang`, and keep what was found as a recipe.

It is a program: `python -m mlgo_gym.deploy.recipe_search FOLDER SOURCE COMPILES CLANG POLICY COMMAND…`, which reads the
bitcode from its standard input.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlgo_gym.corpus.code_generation import code_generation_flags
from mlgo_gym.deploy.program import exit_status_of
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.search import search_module
from mlgo_gym.search.recipe_making import make_recipe
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.leftovers import temporary_folder
from mlgo_gym.storage.recipe import Recipe, keep_recipe

SECONDS = 600.0
"""How long a clang may be silent: a build keeps all processors busy."""

ALGORITHM = "bundles"
"""The search that finds most with few compiles (docs/search.md); it begins with what the policy decides."""


def search_recipe(source: str, bitcode: Path, flags: Sequence[str], clang: str, policy: str, compiles: int) -> Recipe:
    """Return the best decisions that a search, or a policy, takes in a module.

    Args:
        source: what the module is called in the recipe.
        bitcode: the module, before any optimisation.
        flags: its `-cc1` arguments.
        clang: the compiler.
        policy: what decides without a recipe, with which the search begins; empty for clang's own choices.
        compiles: how many compiles the search may take.

    Raises:
        MlgoError: the module cannot be searched.
    """
    arguments = {"corpus": str(bitcode), "clang": clang, "flags": list(flags), "timeout": SECONDS}
    env = make_environment("mlgo/Inline-v0", arguments)
    try:
        module = next(iter(env.corpus))
        used, actions = 0, None
        if env.decisions(module):
            result = search_module(env, module, ALGORITHM, compiles=max(compiles, 1), start=policy or "default")
            used = result.compiles
            if result.verified and result.cost < result.baseline:
                actions = result.actions
        return replace(make_recipe(env, module, actions, used), module=source)
    finally:
        env.close()


def cc1_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Return the `-cc1` arguments with which a driver's command line compiles the bitcode of its source.

    Raises:
        MlgoError: the driver does not say.
    """
    asked = [command[0], *command[1:]]
    # `zig clang` takes its first word as the name of the tool.
    place = 2 if len(asked) > 1 and asked[1] == "clang" else 1
    asked.insert(place, "-###")
    result = run_bounded(asked, writable=None, timeout=SECONDS, errors="surrogateescape")
    lines = [line for line in result.stderr.splitlines() if '"-cc1"' in line]
    if result.returncode != 0 or len(lines) != 1:
        raise MlgoError(f"clang was to name its -cc1 line; it said: {result.stderr.strip()[-500:]}")
    words = shlex.split(lines[0])
    return code_generation_flags(words[words.index("-cc1") :])


def main(arguments: Sequence[str]) -> int:
    """Search a module and keep the recipe; return the exit status."""
    folder, source, compiles, clang, policy, *command = arguments
    data = sys.stdin.buffer.read()

    def search_and_keep() -> None:
        with temporary_folder() as temporary:
            bitcode = temporary / "module.bc"
            bitcode.write_bytes(data)
            found = search_recipe(source, bitcode, cc1_flags(command), clang, policy, int(compiles))
        keep_recipe(found, folder, data)

    return exit_status_of(search_and_keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
