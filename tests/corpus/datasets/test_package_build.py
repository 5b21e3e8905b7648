"""Source distributions that are built as pip builds them, and explanations of failed builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets.builds import explain_build
from mlgo_gym.corpus.datasets.dataset import fetch_dataset
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.package_index import PackageIndex, source_distribution

BACK_END = """\
import os, subprocess, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    subprocess.run([os.environ["CC"], "-O2", "-c", "src/part.c", "-o", "part.o"], check=True)
    name = "tiny-2.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.write("part.o")
        information = "tiny-2.0.dist-info"
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 2.0\\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{information}/RECORD", "")
    return name
"""
FILES = {
    "backend.py": BACK_END,
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 2.0\n",
    "src/part.c": "int part(int x) { return x + 1; }\n",
}


@pytest.mark.slow
def test_any_source_distribution_is_built_as_pip_builds_it(index: PackageIndex, toolchain: Toolchain) -> None:
    digest = index.add("tiny-2.0.tar.gz", source_distribution(FILES, top="tiny-2.0"))
    folder = fetch_dataset("pypi:tiny==2.0", toolchain=toolchain)
    (module,) = open_corpus(folder, toolchain=toolchain)
    assert module.name == "part.o"
    assert module.metadata["source"] == "src/part.c"
    assert module.metadata["archive_sha256"] == digest
    assert read_bitcode(module.bitcode).level == "Oz"
    index.downloads = 0
    for name in ("pypi:tiny==2.0", "pypi:Tiny==2.0", "pypi:TINY==2.0"):
        assert fetch_dataset(name, toolchain=toolchain) == folder
    assert index.downloads == 0


def test_a_failed_build_is_explained_by_its_status_and_the_end_of_its_log(tmp_path: Path, toolchain: Toolchain) -> None:
    log = tmp_path / "build.log"
    log.write_text("…\nfatal error: 'openssl/ssl.h' file not found\n1 error generated.\n")
    words = explain_build(1, log, toolchain)
    assert "exit status 1" in words
    assert str(log) in words
    assert words.startswith("the bundled clang has the headers of libc and libc++ and ignores libraries of the system")
    assert "1 error generated." in words
    assert "pure Python" in explain_build(0, log, toolchain)
