"""Searches the decisions of one module for `mlgo-clang`, and keeps the result as a recipe.

`python -m mlgo_gym.deploy.recipe_search FOLDER SOURCE COMPILES CLANG KIND POLICY COMMAND…` reads the bitcode from
standard input. KIND is `inlining` or `eviction`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlgo_gym.deploy.program import exit_status_of, module_environment
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import can_split
from mlgo_gym.episode.attribution.recipe import Recipe, keep_recipe
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.search import search_module
from mlgo_gym.search.recipes import known_evictions, make_recipe


def search_recipe(env: CompilerEnv, source: str, policy: str, compiles: int, folder: Path) -> Recipe:
    """Return the best decisions that a search from a policy finds for the only module of an environment.

    The recipe has `source` as the name of the module. The search takes at most `compiles` compiles. That of evictions
    first tries what the recipes of the folder have for the functions that did not change.

    Raises:
        MlgoError: the module cannot be searched.
    """
    module = next(iter(env.corpus))
    used, actions = 0, None
    if env.decisions(module):
        # Bundles gain most with few compiles (docs/results/searches.md).
        algorithm, known = ("functions", known_evictions(folder)) if can_split(env.setup) else ("bundles", {})
        result = search_module(env, module, algorithm, compiles=max(compiles, 1), start=policy, known=known)
        used = result.compiles
        if result.verified and result.cost < result.baseline:
            actions = result.actions
    return replace(make_recipe(env, module, actions, used), module=source)


def main(arguments: Sequence[str]) -> int:
    """Search a module and keep the recipe; return the exit status."""
    folder, source, compiles, clang, kind, policy, *command = arguments

    def search() -> None:
        data = sys.stdin.buffer.read()
        with module_environment(data, command, clang, policy, evicts=kind == EVICTION.name) as env:
            recipe = search_recipe(env, source, policy, int(compiles), Path(folder))
        keep_recipe(recipe, folder, data)

    return exit_status_of(search)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
