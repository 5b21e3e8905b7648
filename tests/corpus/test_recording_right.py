"""Recording: what is left out is counted, what flags write stays the build's own, an interruption keeps the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mlgo_gym.corpus.build_log import explain_build
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.description import read_command, read_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.record import RecordedBuild, record_build
from mlgo_gym.errors import NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two small sources."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "f.c").write_text("int f(int x) { return x + 1; }\n")
    (folder / "g.c").write_text("int g(int x) { return x + 2; }\n")
    return folder


def record(project: Path, script: str, toolchain: Toolchain, *, probes: bool = False) -> RecordedBuild:
    """Record a shell script as the build; the corpus is `project/../corpus`."""
    return record_build(
        ["sh", "-ec", script], project.parent / "corpus", toolchain=toolchain, folder=project, probes=probes
    )


def test_what_is_seen_and_not_recorded_is_counted_by_reason(project: Path, toolchain: Toolchain) -> None:
    (project / "conftest.c").write_text("int main(void) { return 0; }\n")
    (project / "ztest123.c").write_text("int main(void) { return 0; }\n")
    (project / "o.m").write_text("int o(void) { return 0; }\n")
    script = (
        "$CC -c f.c; $CC -S g.c; $CC -c g.s; $CC -c -x c - -o std.o < g.c; $CC -c conftest.c; $CC -c ztest123.c; "
        "$CC -c o.m; $CC -emit-llvm -c g.c -o g.bc; $CC -dM -E - < /dev/null > /dev/null; $CC -fsyntax-only g.c"
    )
    recording = record(project, script, toolchain).recording
    assert recording.modules == ("f.o",)
    assert dict(recording.left_out) == {
        "compiled to assembly (-S)": 1,
        "assembly": 1,
        "a source on standard input": 1,
        "a probe of the build system": 2,
        "Objective-C": 1,
        "compiled to LLVM's own form (-emit-llvm)": 1,
    }


def test_probes_are_recorded_when_asked_for(project: Path, toolchain: Toolchain) -> None:
    (project / "conftest.c").write_text("int probe(void) { return 0; }\n")
    recording = record(project, "$CC -c f.c; $CC -c conftest.c", toolchain, probes=True).recording
    assert recording.modules == ("conftest.o", "f.o")
    assert recording.left_out == {}


def test_questions_in_temporary_folders_of_python_are_probes(project: Path, toolchain: Toolchain) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "testfile.cpp").write_text("int t() { return 0; }\n")
        recording = record(project, f"$CC -c f.c; $CXX -c {folder}/testfile.cpp -o t.o", toolchain).recording
    assert recording.modules == ("f.o",)
    assert recording.left_out == {"a probe of the build system": 1}


def test_of_equal_compiles_one_is_kept_and_the_others_counted(project: Path, toolchain: Toolchain) -> None:
    recording = record(project, "mkdir a b; $CC -c f.c -o a/f.o; $CC -c f.c -o b/f.o; $CC -c g.c", toolchain).recording
    assert recording.modules == ("a/f.o", "g.o")
    assert recording.duplicates == 1


def test_outputs_of_the_builds_flags_are_the_builds_own(project: Path, toolchain: Toolchain) -> None:
    flags = "--coverage -save-stats -MJ db.json -ftime-trace=trace.json -fstack-usage -gsplit-dwarf -g"
    build = record(project, f"$CC {flags} -c f.c -o f.o", toolchain)
    assert build.recording.modules == ("f.o",)
    written = {path.name: path.stat().st_mtime_ns for path in project.iterdir()}
    assert {"db.json", "f.gcno", "f.su"} <= set(written)
    corpus = open_corpus(project.parent / "corpus", toolchain=toolchain)
    compilation = plan(corpus[0], toolchain)
    assert compilation.confined
    assert not [flag for flag in compilation.flags if "cov" in flag or "stat" in flag or str(project) in flag]
    assert {path.name: path.stat().st_mtime_ns for path in project.iterdir()} == written


def test_a_file_that_flags_name_is_kept_with_the_corpus(project: Path, toolchain: Toolchain) -> None:
    (project / "order.txt").write_text("!f\n")
    record(project, "$CC -ffunction-sections -fbasic-block-sections=list=order.txt -c f.c", toolchain)
    corpus = project.parent / "corpus"
    (named,) = [flag for flag in read_command(corpus / "f.o.cmd") if flag.startswith("-fbasic-block-sections=list=")]
    kept = corpus / named.removeprefix("-fbasic-block-sections=list=")
    assert kept.parent.name == "inputs"
    assert kept.read_text() == "!f\n"
    (project / "order.txt").unlink()
    assert f"-fbasic-block-sections=list={kept}" in plan(open_corpus(corpus, toolchain=toolchain)[0], toolchain).flags


def test_a_build_that_compiles_nothing_says_how_it_ended(project: Path, toolchain: Toolchain) -> None:
    with pytest.raises(NothingCompiledError, match="the build ended with status 3; no compile") as caught:
        record(project, "exit 3", toolchain)
    assert caught.value.status == 3


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_keeps_what_was_recorded_and_leaves_nothing(
    project: Path, toolchain: Toolchain, how: signal.Signals, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = (
        "import sys; from pathlib import Path; from mlgo_gym.corpus.record import record_build\n"
        "build = record_build(['sh', '-c', '$CC -c f.c; echo begun; exec tail -f /dev/null'], "
        "Path('../corpus'))\n"
        "print(build.status, build.recording.modules)"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(how)
        assert process.stdout.read() == f"{-how.value} ('f.o',)\n"
        assert process.wait() == 0
    assert read_description(tmp_path / "corpus").modules == ("f.o",)
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "project", "temporary"]


def test_a_failed_build_is_explained_by_its_status_and_the_end_of_its_log(tmp_path: Path, toolchain: Toolchain) -> None:
    log = tmp_path / "build.log"
    log.write_text("…\nfatal error: 'openssl/ssl.h' file not found\n1 error generated.\n")
    words = explain_build(1, log, toolchain)
    assert "exit status 1" in words
    assert str(log) in words
    assert words.startswith("the bundled clang brings the headers of libc and libc++ and sees no libraries")
    assert "it wants openssl/ssl.h" in words
    assert "1 error generated." in words
    assert "pure Python" in explain_build(0, log, toolchain)
