"""The public names of the package, and the imports of the examples."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mlgo_gym

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
PUBLIC = ("mlgo_gym", "mlgo_gym.wrappers", "mlgo_gym.adapters")


@pytest.mark.parametrize("name", mlgo_gym.__all__)
def test_a_public_name_is_importable_and_documented(name: str) -> None:
    value = getattr(mlgo_gym, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'evalute'"):
        mlgo_gym.evalute  # noqa: B018 - the access is the test


def test_importing_the_package_imports_neither_numpy_heavy_rooms_nor_torch() -> None:
    program = "import sys, mlgo_gym; print(*(name for name in sys.modules if name.startswith('mlgo_gym.')))"
    imported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert imported == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(example: Path) -> None:
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlgo_gym"):
            package = ".".join((node.module or "").split(".")[:2])
            assert package in PUBLIC, f"line {node.lineno}: from {node.module} import …"
            if node.module == "mlgo_gym":
                assert {alias.name for alias in node.names} <= {*mlgo_gym.__all__, "__version__"}
