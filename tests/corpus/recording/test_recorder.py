"""Records of a build: skipped compiles, probes, duplicates, files that flags name, and interruptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.modules.description import read_command, read_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import Recording
from mlgo_gym.errors import NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain

OTHER_SIGNALS = (signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two small sources."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "f.c").write_text("int f(int x) { return x + 1; }\n")
    (folder / "g.c").write_text("int g(int x) { return x + 2; }\n")
    return folder


def record(project: Path, script: str, toolchain: Toolchain, *, probes: bool = False) -> Recording:
    """Record a shell script as the build; the corpus is `project/../corpus`."""
    return record_build(
        ["sh", "-ec", script], project.parent / "corpus", toolchain=toolchain, folder=project, probes=probes
    )


def test_skipped_compiles_are_counted_by_reason(project: Path, toolchain: Toolchain) -> None:
    (project / "conftest.c").write_text("int main(void) { return 0; }\n")
    (project / "ztest123.c").write_text("int main(void) { return 0; }\n")
    (project / "o.m").write_text("int o(void) { return 0; }\n")
    script = (
        "$CC -c f.c; $CC -S g.c; $CC -c g.s; $CC -c -x c - -o std.o < g.c; $CC -c conftest.c; $CC -c ztest123.c; "
        "$CC -c o.m; $CC -emit-llvm -c g.c -o g.bc; $CC -dM -E - < /dev/null > /dev/null; $CC -fsyntax-only g.c"
    )
    recording = record(project, script, toolchain)
    assert recording.modules == ("f.o",)
    assert dict(recording.skipped) == {
        "compiled to assembly (-S)": 1,
        "assembly": 1,
        "a source on standard input": 1,
        "a probe of the build system": 2,
        "Objective-C": 1,
        "compiled to LLVM's own form (-emit-llvm)": 1,
    }


def test_one_source_in_several_programs_is_several_modules(project: Path, toolchain: Toolchain) -> None:
    (project / "t.c").write_text("int main(void) {\n#ifdef A\nreturn 1;\n#endif\nreturn 2; }\n")
    recording = record(project, "$CC -DA t.c -o a; $CC -DB t.c -ob; $CC t.c", toolchain)
    # -DB and the third one are equal, since no line uses B.
    assert (recording.replaced, recording.duplicates) == (0, 1)
    assert len(recording.modules) == 2
    assert recording.failures == ()
    again = record_build(["sh", "-ec", "$CC -DA t.c -o a; $CC t.c -o a"], project.parent / "again", folder=project)
    assert (again.replaced, len(again.modules)) == (1, 1)


def test_probes_are_recorded_on_request(project: Path, toolchain: Toolchain) -> None:
    (project / "conftest.c").write_text("int probe(void) { return 0; }\n")
    recording = record(project, "$CC -c f.c; $CC -c conftest.c", toolchain, probes=True)
    assert recording.modules == ("conftest.o", "f.o")
    assert recording.skipped == {}


def test_one_of_several_equal_compiles_is_kept(project: Path, toolchain: Toolchain) -> None:
    recording = record(project, "mkdir a b; $CC -c f.c -o a/f.o; $CC -c f.c -o b/f.o; $CC -c g.c", toolchain)
    assert recording.modules == ("a/f.o", "g.o")
    assert recording.duplicates == 1


def test_side_outputs_of_the_build_are_not_overwritten(project: Path, toolchain: Toolchain) -> None:
    flags = "--coverage -save-stats -MJ db.json -ftime-trace=trace.json -fstack-usage -gsplit-dwarf -g"
    build = record(project, f"$CC {flags} -c f.c -o f.o", toolchain)
    assert build.modules == ("f.o",)
    written = {path.name: path.stat().st_mtime_ns for path in project.iterdir()}
    assert {"db.json", "f.gcno", "f.su"} <= set(written)
    corpus = open_corpus(project.parent / "corpus", toolchain=toolchain)
    compilation = plan(corpus[0], toolchain)
    assert compilation.confined
    assert not [flag for flag in compilation.flags if "cov" in flag or "stat" in flag or str(project) in flag]
    assert {path.name: path.stat().st_mtime_ns for path in project.iterdir()} == written


def test_a_file_that_flags_name_is_copied_into_the_corpus(project: Path, toolchain: Toolchain) -> None:
    (project / "order.txt").write_text("!f\n")
    record(project, "$CC -ffunction-sections -fbasic-block-sections=list=order.txt -c f.c", toolchain)
    corpus = project.parent / "corpus"
    (named,) = [flag for flag in read_command(corpus / "f.o.cmd") if flag.startswith("-fbasic-block-sections=list=")]
    kept = corpus / named.removeprefix("-fbasic-block-sections=list=")
    assert kept.parent.name == "inputs"
    assert kept.read_text() == "!f\n"
    (project / "order.txt").unlink()
    assert f"-fbasic-block-sections=list={kept}" in plan(open_corpus(corpus, toolchain=toolchain)[0], toolchain).flags


def test_the_error_of_a_build_without_compiles_has_its_status(project: Path, toolchain: Toolchain) -> None:
    with pytest.raises(NothingCompiledError, match="the build ended with status 3; expected compiles") as caught:
        record(project, "exit 3", toolchain)
    assert caught.value.status == 3


def interrupted(program: str, how: signal.Signals, project: Path, temporary: Path) -> tuple[int, str]:
    """Send a signal to a program that has printed `started`; return its exit status and the rest of its output."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(how)
        rest = process.stdout.read()
        return process.wait(), rest


@pytest.mark.parametrize("how", [signal.SIGTERM, *(pytest.param(how, marks=pytest.mark.slow) for how in OTHER_SIGNALS)])
def test_an_interrupted_build_keeps_its_records(
    project: Path, toolchain: Toolchain, how: signal.Signals, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = (
        "from pathlib import Path; from mlgo_gym.corpus.recording.record import record_build\n"
        "build = record_build(['sh', '-c', '$CC -c f.c; echo started; exec tail -f /dev/null'], "
        "Path('../corpus'))\n"
        "print(build.status, build.modules)"
    )
    assert interrupted(program, how, project, temporary) == (0, f"{-how.value} ('f.o',)\n")
    assert read_description(tmp_path / "corpus").modules == ("f.o",)
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "project", "temporary"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_that_is_not_kept_ends_the_process_by_the_same_signal(
    project: Path, toolchain: Toolchain, how: signal.Signals, tmp_path: Path
) -> None:
    program = (
        "from pathlib import Path; from mlgo_gym.corpus.recording.record import record_build\n"
        "record_build(['sh', '-c', '$CC -c f.c; echo started; exec tail -f /dev/null'], Path('../corpus'), "
        "keep_interrupted=False)"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert interrupted(program, how, project, temporary) == (-how.value, "")
    assert not (tmp_path / "corpus").exists()
