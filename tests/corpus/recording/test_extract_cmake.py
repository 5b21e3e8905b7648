"""A CMake project, extracted and recorded. Skipped where there is no CMake."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.object_list import read_object_list
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.verify import verify
from mlgo_gym.llvm.toolchain import Toolchain

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("make") is None, reason="CMake or make is not installed"
)

# CMake links a program in each language, and the first C++ link by the bundled clang takes minutes.
LANGUAGES = ["c", pytest.param("cpp", marks=pytest.mark.slow)]


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """The language of the second source file."""
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path, language: str) -> Path:
    folder = tmp_path / "project"
    languages = "C CXX" if language == "cpp" else "C"
    sources = {
        "util.c": "int util(int x) { return x * 3; }\n",
        f"sub/more.{language}": "int more(int x) { return x + 2; }\n",
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nset(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        f"project(demo {languages})\nadd_library(util STATIC util.c sub/more.{language})\n",
    }
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def embedding_compiler(path: Path, mode: str, toolchain: Toolchain) -> Path:
    flags = ["--target=x86_64-unknown-linux-musl", f"--driver-mode={mode}", "-Xclang", "-fembed-bitcode=all"]
    path.write_text(f'#!/bin/sh\nexec {shlex.join([*toolchain.command, *flags])} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_extraction_and_recording_give_the_same_modules(
    project: Path, language: str, tmp_path: Path, any_toolchain: Toolchain
) -> None:
    c, cxx = (embedding_compiler(tmp_path / mode, mode, any_toolchain) for mode in ("gcc", "g++"))
    compilers = [f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}"]
    built = tmp_path / "embedded"
    configure = ["cmake", "-S", str(project), "-G", "Unix Makefiles"]
    for command in (
        [*configure, "-B", str(built), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *compilers],
        ["make", "-C", str(built)],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    report = extract_corpus(read_object_list(built / "compile_commands.json", "json"), tmp_path / "extracted")
    assert report.skipped == []

    recorded = tmp_path / "recorded"
    recorded.mkdir()
    script = f"{shlex.join([*configure, '-B', str(recorded)])} >&2 && make -C {shlex.quote(str(recorded))} >&2"
    build = record_build(["sh", "-c", script], tmp_path / "corpus", toolchain=any_toolchain, root=recorded)
    assert (build.status, build.failures) == (0, ())

    corpora = [open_corpus(tmp_path / name, toolchain=any_toolchain) for name in ("extracted", "corpus")]
    names = [f"CMakeFiles/util.dir/sub/more.{language}.o", "CMakeFiles/util.dir/util.c.o"]
    assert [sorted(corpus.names) for corpus in corpora] == [names, names]
    assert [verify(corpus, any_toolchain) for corpus in corpora] == [[], []]
