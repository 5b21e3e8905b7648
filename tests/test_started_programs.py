"""Every program that this package starts has limits, or a reason here for having none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mlgo_clang
import mlgo_gym

WITHOUT = {
    "mlgo_gym/corpus/record.py": "the user's own build, which Ctrl-C and SIGTERM end",
    "mlgo_gym/corpus/shim.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_gym/corpus/shim_compiles.py": "likewise",
    "mlgo_gym/session/bounded_run.py": "it is what limits",
    "mlgo_gym/session/process.py": "likewise",
    "mlgo_gym/scheduling/processes.py": "workers of ours, which end with their parent",
    "mlgo_clang/advised.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_clang/calls.py": "a program of ours, whose compiles are limited",
    "mlgo_clang/conversation.py": "a compile of the user's own build, which nothing but the build limits",
    "mlgo_clang/driver.py": "it becomes the compiler of the user's own build",
    "mlgo_clang/policies.py": "a program of ours, whose compiles are limited",
    "mlgo_clang/recipes.py": "a program of ours, whose compiles are limited, and the front end of the user's own build",
    "mlgo_clang/version.py": "clang says its version",
}
STARTERS = {
    "subprocess": ("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "context": ("Process",),
    "os": ("posix_spawn", "posix_spawnp", "execv", "execve", "execvp", "execvpe", "system", "popen", "spawnv", "fork"),
}


def unlimited(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield what starts a program or a process and is not called with a timeout."""
    limited = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "timeout" in [keyword.arg for keyword in node.keywords]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in limited:
            module, name = node.value.id, node.attr
            if name in STARTERS.get(module, ()):
                yield node


def test_every_program_that_is_started_has_limits_or_a_reason() -> None:
    found = set()
    for package in (mlgo_gym, mlgo_clang):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*.py"):
            if any(unlimited(ast.parse(path.read_text(encoding="utf-8")))):
                found.add(f"{root.name}/{path.relative_to(root).as_posix()}")
    assert found == set(WITHOUT)
