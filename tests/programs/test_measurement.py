"""Programs, linked, run and measured; and under `evaluate --run`."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.evaluation.running import programs_tables
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.programs import find_counter, link_program, measure_program, read_programs
from mlgo_gym.programs.counters import has_hardware_counter
from mlgo_gym.programs.measurement import linked_size
from mlgo_gym.session.process.bounded_run import run_bounded
from tests.cli.command import run
from tests.programs.small_corpus import ENTRY, MODULE, RIGHT, WRONG, small_corpus


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


@pytest.fixture
def counted() -> None:
    if shutil.which("valgrind") is None and not has_hardware_counter():
        pytest.skip("nothing counts instructions")


@pytest.mark.slow  # the first link compiles the C library
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("counted")
class TestPrograms:
    """Programs that are linked and run."""

    def test_a_wrong_output_fails_alone(self, tmp_path: Path) -> None:
        text = ENTRY.format(name="right", sha256=RIGHT) + ENTRY.format(name="wrong", sha256=WRONG)
        corpus = small_corpus(tmp_path / "corpus", text)
        policies = ("default", "always")
        with Evaluation("mlgo/Inline-v0", policies=policies, corpus=corpus, output=tmp_path / "output") as evaluation:
            rows = list(evaluation.run_programs(trust_flags=True))
        assert [(row.policy, row.program) for row in rows] == [
            (policy, program) for policy in (PLAIN, *policies) for program in ("right", "wrong")
        ]
        plain, default, always = (row for row in rows if row.program == "right")
        assert (default.size, default.instructions) == (plain.size, plain.instructions)
        assert always.size > plain.size
        assert always.instructions < plain.instructions
        for row in rows:
            if row.program == "wrong":
                assert row.error is not None
                assert "expected output with the SHA-256 0000000000000000…, got" in row.error
                assert "starts with b'0\\n'; the compiled program is wrong" in row.error
        assert json.loads((tmp_path / "output" / "programs.json").read_bytes()) == [asdict(row) for row in rows]
        tables = programs_tables(rows)
        assert [table.title.split(",")[0] for table in tables] == [f"Programs with {name}" for name in policies]
        assert [row[0] for row in tables[0].rows] == ["right", "wrong"]
        assert (tables[0].rows[0][2], tables[0].rows[1][1]) == ("0", "failed")

    def test_the_command_runs_programs_and_fails_with_them(self, tmp_path: Path) -> None:
        small_corpus(tmp_path / "right", ENTRY.format(name="vfs", sha256=RIGHT))
        small_corpus(tmp_path / "wrong", ENTRY.format(name="vfs", sha256=WRONG))
        command = ("evaluate", "mlgo/Inline-v0", "--policy", "never", "--run", "--json", "--corpus")
        with pytest.raises(MlgoError, match="--trust-flags"):
            run(*command, tmp_path / "right")
        right = run(*command, tmp_path / "right", "--trust-flags")
        plain, never = json.loads(right.stdout)["programs"]
        assert (right.exit_code, plain["policy"], never["policy"]) == (0, PLAIN, "never")
        assert never["instructions"] > plain["instructions"] > 10_000
        wrong = run(*command, tmp_path / "wrong", "--trust-flags")
        assert wrong.exit_code == 1
        assert all(row["error"] for row in json.loads(wrong.stdout)["programs"])

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
        (folder / "programs.toml").write_text(f'[programs.app]\nlink = "app"\nruns = [{entry}]\n')
        with Evaluation("mlgo/Inline-v0", policies=("never",), corpus=str(folder)) as evaluation:
            plain, never = evaluation.run_programs(trust_flags=True)
        assert (plain.error, never.error) == (None, None)
        assert plain.modules == never.modules == 2
        assert never.instructions > plain.instructions

    def test_only_the_functions_of_the_modules_count_as_size(self, tmp_path: Path, toolchain: Toolchain) -> None:
        corpus = small_corpus(tmp_path / "corpus", ENTRY.format(name="vfs", sha256=RIGHT))
        (program,) = read_programs(corpus, trust=True)
        assert corpus.path is not None
        with (
            Evaluation("mlgo/Inline-v0", policies=("default",), corpus=corpus) as evaluation,
            evaluation.evaluated.env.compilation(corpus.module(MODULE)).session() as session,
        ):
            data = session.finish(60).object_bytes
        (tmp_path / "vfs.o").write_bytes(data)
        files, output, counter = {MODULE: tmp_path / "vfs.o"}, tmp_path / "vfs", find_counter()
        link_program(program, corpus.path, files, output, toolchain)
        measured = measure_program(program, corpus.path, files, output, counter)
        assert measured.size == sum(function_sizes(data).functions.values())
        assert measured.size < function_sizes(output.read_bytes()).text
        with pytest.raises(MlgoError):
            measure_program(program, corpus.path, files, tmp_path / "missing", counter)
