"""The floor plan of the package: few flat modules, short files, and rooms of which each stands on those below."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mlgo_gym", "envs", "mlgo_clang")


def sources() -> Iterator[tuple[str, Path]]:
    """Each file of the engine and the environments, with the room that it is in; a flat module is one of its own."""
    for path in sorted(ROOT.glob("mlgo_gym/**/*.py")):
        yield path.relative_to(ROOT / "mlgo_gym").parts[0].removesuffix(".py"), path
    for path in sorted(ROOT.glob("envs/*.py")):
        yield "envs", path


def imported(path: Path) -> Iterator[str]:
    """The rooms that a file imports from, wherever in it, but for what only a type checker reads."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name.split(".")[1] for name in names if name.startswith("mlgo_gym."))


@pytest.fixture(scope="module")
def rooms() -> dict[str, set[str]]:
    """The rooms, and which others each imports from."""
    found: dict[str, set[str]] = {}
    for room, path in sources():
        found.setdefault(room, set()).update(imported(path))
    return {room: below - {room} for room, below in found.items()}


def test_flat_modules_are_few() -> None:
    assert len([path for path in ROOT.glob("mlgo_gym/*.py") if path.name != "__init__.py"]) <= 6


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_is_long(package: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in ROOT.glob(f"{package}/**/*.py")}
    assert [str(path) for path, length in lengths.items() if length > 400] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_many_files(package: str) -> None:
    counts = Counter(path.parent for path in ROOT.glob(f"{package}/**/*.py"))
    assert [str(folder) for folder, count in counts.items() if count > 25] == []


def test_the_house_has_at_most_eleven_floors(rooms: dict[str, set[str]]) -> None:
    flat = {path.stem for path in ROOT.glob("mlgo_gym/*.py")}

    @cache
    def floor(room: str) -> int:
        """How many rooms, itself included, stand on each other below it; a circle would have no end."""
        return max((floor(below) for below in rooms.get(room, ())), default=0) + (room not in flat)

    assert floor("storage") == 1
    assert max(map(floor, rooms)) <= 11
