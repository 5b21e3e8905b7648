"""Programs, linked, run and measured; and under `evaluate --run`."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.programs import link_program, read_programs
from mlgo_gym.programs.counters import has_hardware_counter
from mlgo_gym.programs.measurement import linked_size
from mlgo_gym.session.process.bounded_run import run_bounded
from tests.cli.command import run
from tests.programs.small_corpus import ENTRY, RIGHT, WRONG, small_corpus


def test_a_program_of_an_unknown_link_is_an_error(tmp_path: Path, toolchain: Toolchain) -> None:
    text = f'[programs.vfs]\nlink = "bin/vfs"\nruns = [{{sha256 = "{RIGHT}"}}]\n'
    corpus = small_corpus(tmp_path / "corpus", text)
    (program,) = read_programs(corpus, trust=True)
    assert corpus.path is not None
    with pytest.raises(CorpusError, match=r"program vfs: expected the output of a recorded link, got 'bin/vfs'"):
        link_program(program, corpus.path, {}, tmp_path / "out", toolchain)


WEBASSEMBLY = """
struct Sum { int total; __attribute__((noinline)) int add(int value) { return total += value * 3; } };
__attribute__((noinline)) int twice(int value) { Sum sum{value}; return sum.add(value); }
extern "C" void _start() { static volatile int kept; kept = twice(kept); }
"""


def test_functions_of_cxx_count_in_a_webassembly_file_that_names_them_demangled(tmp_path: Path) -> None:
    source, object_file, program = tmp_path / "sum.cc", tmp_path / "sum.o", tmp_path / "sum.wasm"
    source.write_text(WEBASSEMBLY)
    compiler = [*bundled_command("c++"), "-target", "wasm32-freestanding"]
    linker = [bundled_command()[0], "wasm-ld"]
    for command in (
        [*compiler, "-Os", "-c", str(source), "-o", str(object_file)],
        [*linker, str(object_file), "-o", str(program)],
    ):
        answer = run_bounded(command, writable=None, name="the bundled compiler")
        assert answer.returncode == 0, answer.stderr
    assert "Sum::add(int)" in function_sizes(program.read_bytes()).functions
    size = linked_size({"sum": object_file}, program)
    assert size == sum(function_sizes(object_file.read_bytes()).functions.values()) > 0


@pytest.mark.slow  # the first link compiles the C library
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not shutil.which("valgrind") and not has_hardware_counter(), reason="nothing counts instructions")
class TestPrograms:
    """Programs that are linked and run."""

    def test_a_wrong_output_fails_alone_and_in_the_exit_status(self, tmp_path: Path) -> None:
        text = ENTRY.format(name="right", sha256=RIGHT) + ENTRY.format(name="wrong", sha256=WRONG)
        small_corpus(tmp_path / "corpus", text)
        command = ("evaluate", "mlgo/Inline-v0", "--policy", "default,always", "--run", "--corpus", tmp_path / "corpus")
        with pytest.raises(MlgoError, match="--trust-flags"):
            run(*command)
        result = run(*command, "--trust-flags", "--output", tmp_path / "output", "--json")
        rows = json.loads(result.stdout)["programs"]
        assert result.exit_code == 1
        assert json.loads((tmp_path / "output" / "programs.json").read_bytes()) == rows
        assert [(row["policy"], row["program"]) for row in rows] == [
            (policy, program) for policy in (PLAIN, "default", "always") for program in ("right", "wrong")
        ]
        plain, default, always = (row for row in rows if row["program"] == "right")
        assert (default["size"], default["instructions"]) == (plain["size"], plain["instructions"])
        assert always["size"] > plain["size"]
        assert 10_000 < always["instructions"] < plain["instructions"]
        for row in rows:
            if row["program"] == "wrong":
                assert "expected output with the SHA-256 0000000000000000…, got" in row["error"]
                assert "starts with b'0\\n'; the compiled program is wrong" in row["error"]
        table = run(*command, "--trust-flags", "--output", tmp_path / "output").stdout
        assert "Programs with always" in table
        assert "failed" in table

    def test_the_output_of_a_recorded_link_runs(self, tmp_path: Path, toolchain: Toolchain) -> None:
        project, folder = tmp_path / "project", tmp_path / "corpus"
        project.mkdir()
        (project / "work.c").write_text(
            "static int half(int n) { return n / 2 + n % 3; }\nint work(int n) { return half(n) + half(n + 7); }\n"
        )
        (project / "main.c").write_text(
            "#include <stdio.h>\nint work(int);\n"
            'int main(int n, char **words) { char name[9] = ""; FILE *file = fopen("name.txt", "r");'
            ' printf("%s %d\\n", file && fgets(name, 9, file) ? name : "?", work(n + 40)); return 0; }\n'
        )
        script = "$CC -O2 -c work.c main.c; $CC work.o main.o -o app"
        assert record_build(["sh", "-ec", script], folder, toolchain=toolchain, folder=project).status == 0
        (folder / "name.txt").write_text("mine")
        digest = hashlib.sha256(b"mine 49\n").hexdigest()
        entry = f'{{arguments = ["one", "two"], files = ["name.txt"], sha256 = "{digest}"}}'
        programs = [
            f'[programs.{name}]\nlink = "app"\nruns = [{runs}]\n'
            for name, runs in (("once", entry), ("twice", f"{entry}, {entry}"))
        ]
        (folder / "programs.toml").write_text("".join(programs))
        with Evaluation("mlgo/Inline-v0", policies=("never",), corpus=str(folder)) as evaluation:
            plain, twice, never, _ = evaluation.run_programs(trust_flags=True)
        assert (plain.error, twice.error, never.error) == (None, None, None)
        assert twice.instructions > 1.9 * plain.instructions
        assert twice.memory < 1.5 * plain.memory
        assert plain.modules == never.modules == 2
        assert never.instructions > plain.instructions
