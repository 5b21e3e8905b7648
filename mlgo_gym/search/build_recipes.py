"""Recipes of builds: search one for `mlgo-clang`, and verify those of a folder.

`python -m mlgo_gym.search.build_recipes FOLDER SOURCE COMPILES CLANG POLICY METRIC COMMAND…` reads the bitcode of
a module from standard input, searches its inlining decisions, and keeps the result as a recipe. METRIC is the size to
make smaller.
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mlgo_clang.command_lines import cc1_commands, shown_text
from mlgo_clang.errors import exit_status_of
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.driver import code_generation_flags
from mlgo_gym.episode.attribution.recipe import Recipe, keep_recipe
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.search import search_module
from mlgo_gym.search.corpus_search import make_recipe
from mlgo_gym.search.search_space import search_environment
from mlgo_gym.storage.temporary_folders import temporary_folder

SECONDS = 600.0
"""Seconds without a sign of life after which a clang is stopped: a build keeps all cores busy."""


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

    def choose(decision: Decision) -> bytes:
        nonlocal requests
        requests += 1
        answer = next(answers, None)
        return session.any_answer(decision) if answer is None else answer.to_bytes(8, "little")

    with compilation.session((INLINING,) if recipe.answers else ()) as session:
        text = object_sizes(drive(session, choose, SECONDS).object_bytes).text
    if requests != len(recipe.answers):
        return f"expected {len(recipe.answers)} requests, got {requests}"
    return "" if text == recipe.text else f"expected {recipe.text} bytes, got {text}"


def cc1_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Return the `-cc1` arguments with which a driver's command line compiles the bitcode of its source."""
    # `zig clang` takes its first word as the name of the tool.
    position = 2 if command[1:2] == ["clang"] else 1
    lines = cc1_commands(shown_text(command[:position], command[position:], SECONDS))
    if len(lines) != 1:
        raise MlgoError(f"expected one -cc1 line from {command[0]}, got {len(lines)}; compile one source")
    return code_generation_flags(lines[0])


def main(arguments: Sequence[str]) -> int:
    """Search a module, compiled as a driver's command line does, and keep the recipe; return the exit status."""
    recipes, source, compiles, clang, policy, metric, *command = arguments

    def search() -> None:
        data = sys.stdin.buffer.read()
        with temporary_folder() as folder:
            bitcode = folder / "module.bc"
            bitcode.write_bytes(data)
            options = {"flags": list(cc1_flags(command)), "timeout": SECONDS}
            settings = {"corpus": str(bitcode), "clang": clang, "compile_options": options, "metric": metric}
            env, _ = search_environment("mlgo/Inline-v0", settings, policy)
            with closing(env):
                module, found = env.corpus[0], None
                if env.decisions(module):
                    found = search_module(env, module, compiles=int(compiles), start=policy)
                keep_recipe(replace(make_recipe(env, module, found), module=source), recipes, data)

    return exit_status_of(search)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
