"""The package index of several tests, and the dataset `tiny`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_files
from tests.corpus.package_index import PackageIndex, serve, source_distribution

NAME = "tiny-1.0.tar.gz"
FILES = {
    "src/good.c": '#include "config.h"\n#include <stdlib.h>\nint good(int x) { return abs(x) * SCALE; }\n',
    "src/more.cpp": "#include <initializer_list>\nint more(int x) { return std::initializer_list{x, 1}.size(); }\n",
    "src/bad.c": "int bad(void) { return missing; }\n",
    "src/windows.c": "#error not here\n",
}
ENTRY = {
    "package": "tiny",
    "version": "1.0",
    "licence": "MIT",
    "summary": "two modules",
    "parts": [{"sources": ["src/*.c", "src/*.cpp"], "include": ["generated"]}],
    "exclude": {"src/windows.c": "for Windows"},
    "files": {"generated/config.h": ["#define SCALE 3"]},
}


@pytest.fixture
def index(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that pip would use, with the dataset `tiny` of the user's catalogue, and an empty cache."""
    with serve() as served:
        # Nothing asks pip for its settings, which takes a second.
        settings = {"INDEX_URL": served.url, "EXTRA_INDEX_URL": str(tmp_path), "CERT": str(tmp_path / "none.pem")}
        for name, value in settings.items():
            monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.setenv("MLGO_DATASETS", str(tmp_path / "descriptions"))
        describe_tiny(tmp_path, served.add(NAME, source_distribution(FILES)))
        yield served


def describe_tiny(tmp_path: Path, digest: str, **changes: Any) -> None:
    """Write the description of the dataset `tiny` with a digest and changes."""
    entry = {**ENTRY, "sha256": digest, **changes}
    write_files(tmp_path / "descriptions", {"tiny.json": json.dumps(entry)})
