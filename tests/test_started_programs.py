"""Every program that this package starts has limits, or a reason here for having none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlgo_clang
import mlgo_gym

WITHOUT = {
    "mlgo_gym/corpus/recording/record.py": "the user's own build, which Ctrl-C and SIGTERM end",
    "mlgo_gym/corpus/recording/shim.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_gym/corpus/recording/rustc_shim.py": "likewise",
    "mlgo_gym/corpus/commands/shim_compiles.py": "likewise",
    "mlgo_gym/session/process/bounded_run.py": "it is what limits",
    "mlgo_gym/session/process/process.py": "likewise",
    "mlgo_gym/scheduling/processes.py": "workers of ours, which end with their parent",
    "mlgo_clang/advised.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_clang/compiler.py": "it becomes the compiler of the user's own build",
    "mlgo_clang/driver.py": "clang prints its version",
    "mlgo_clang/interactive.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_clang/rustc.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_clang/programs.py": "the front end of the user's own build, and programs of ours, whose compiles are limited",
}
STARTERS = {
    "subprocess": ("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "context": ("Process",),
    "os": ("posix_spawn", "posix_spawnp", "execv", "execve", "execvp", "execvpe", "system", "popen", "spawnv", "fork"),
}


def unlimited(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each reference to a function that starts a program or a process, unless it is called with a timeout."""
    limited = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "timeout" in [keyword.arg for keyword in node.keywords]
    }
    modules = {name: name for name in STARTERS}
    functions: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            functions |= {each.asname or each.name: (node.module or "", each.name) for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = modules.get(node.value.id, ""), node.attr
        elif isinstance(node, ast.Name):
            module, name = functions.get(node.id, ("", ""))
        else:
            continue
        if name in STARTERS.get(module, ()) and id(node) not in limited:
            yield node


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(words)",
        "import subprocess as programs\nprograms.run(words)",
        "from subprocess import run\nrun(words)",
        "from subprocess import run as start\nstart(words)",
        "from os import execv\nexecv(path, words)",
        "import os\nstart = os.posix_spawn",
        "context = get_context('spawn')\ncontext.Process(target=main).start()",
    ],
)
def test_a_program_without_a_limit_is_found_however_it_is_imported(source: str) -> None:
    assert len(list(unlimited(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(words, timeout=1)",
        "from subprocess import run\nrun(words, timeout=1)",
        "from asyncio import run\nrun(main())",
    ],
)
def test_a_program_with_a_limit_is_not_found(source: str) -> None:
    assert not list(unlimited(ast.parse(source)))


def test_every_program_that_is_started_has_limits_or_a_reason() -> None:
    found = set()
    for package in (mlgo_gym, mlgo_clang):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*.py"):
            if any(unlimited(ast.parse(path.read_text(encoding="utf-8")))):
                found.add(f"{root.name}/{path.relative_to(root).as_posix()}")
    assert found == set(WITHOUT)
