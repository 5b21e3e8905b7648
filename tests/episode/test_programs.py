"""Programs of corpora: descriptions, runs, and counters."""

import json
import shutil
import sys
from pathlib import Path
from typing import Literal

import pytest

from mlgo_gym import open_corpus
from mlgo_gym.compiler.limits import confinement_support
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.datasets.catalogue import PROGRAMS, find_dataset
from mlgo_gym.corpus.driver import TARGETS
from mlgo_gym.episode.metrics.counters import (
    PROGRAM_TARGET,
    Count,
    count_program,
    find_emulator,
    has_hardware_counter,
    run_program,
)
from mlgo_gym.episode.metrics.programs import link_program, read_programs
from mlgo_gym.errors import CorpusError, CorpusWarning, MlgoError, ToolchainError
from mlgo_gym.evaluation.runner import PLAIN
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.cli.command import run
from tests.tasks.small_corpus import ENTRY, MODULE, RIGHT, WRONG, small_corpus


def test_the_builtin_corpus_and_the_dataset_of_programs_describe_their_programs() -> None:
    corpus = open_corpus("builtin")
    programs = read_programs(corpus)
    named = [name for name in corpus.names if name != "kernels/switchvm" and not name.startswith("modern/")]
    assert {program.modules for program in programs} == {(name,) for name in named}
    assert not any(program.held_out for program in programs)
    dataset = find_dataset(PROGRAMS)
    assert dataset.programs.count("\n[programs.") == len({dataset.folder, *dataset.needs})
    # Fifteen of them are of projects that no policy was trained on.
    assert dataset.programs.count("held_out = true") == 15


def test_programs_of_a_folder_need_trust_and_sources_that_compile(tmp_path: Path) -> None:
    entries = ENTRY.format(name="vfs", sha256=RIGHT) + ENTRY.format(name="other", sha256=RIGHT).replace("c/*", "d/*")
    corpus = small_corpus(tmp_path / "corpus", entries)
    with pytest.raises(CorpusError, match=r"expected programs of a trusted corpus, got .*--trust-flags"):
        read_programs(corpus)
    (tmp_path / "corpus" / "recording.json").write_text('{"modules": 1, "failures": [{"source": "d/mmap.c"}]}')
    with pytest.warns(CorpusWarning, match="to compile, got failures in other; these are excluded"):
        (program,) = read_programs(corpus, trust=True)
    assert (program.name, program.modules, program.runs[0].arguments) == ("vfs", (MODULE,), ("2",))


def test_a_missing_or_malformed_description_is_one_line(tmp_path: Path) -> None:
    text = ENTRY.format(name="vfs", sha256=RIGHT)
    corpus = small_corpus(tmp_path / "corpus", text)
    description = tmp_path / "corpus" / "programs.toml"
    for before, after, message in (
        ('modules = ["c/*"]', 'modules = ["d/*"]', "expected modules of the corpus or a link"),
        (RIGHT, "12", "expected runs, each with a sha256"),
        ('driver = "selftest.c"', 'driver = "../selftest.c"', "leads out of the corpus folder"),
        ('driver = "selftest.c"', 'language = "rust"', r"expected a language of c, c\+\+, got 'rust'"),
        ("[programs.vfs]", "[programs.vfs", "TOMLDecodeError"),
        (text, "[programs]", "no program"),
    ):
        assert before in text
        description.write_text(text.replace(before, after))
        with pytest.raises(CorpusError, match=rf"(?s)programs\.toml: expected .*{message}.*; correct it"):
            read_programs(corpus, trust=True)
    description.write_bytes(b"\xff" * 100_000)
    with pytest.raises(CorpusError, match="UnicodeDecodeError") as caught:
        read_programs(corpus, trust=True)
    assert len(str(caught.value)) < 1000
    description.unlink()
    with pytest.raises(CorpusError, match=r"expected a corpus with programs\.toml, got"):
        read_programs(corpus, trust=True)


def test_a_program_of_an_unknown_link_is_an_error(tmp_path: Path, toolchain: Toolchain) -> None:
    text = f'[programs.vfs]\nlink = "bin/vfs"\nruns = [{{sha256 = "{RIGHT}"}}]\n'
    corpus = small_corpus(tmp_path / "corpus", text)
    (program,) = read_programs(corpus, trust=True)
    assert corpus.path is not None
    with pytest.raises(CorpusError, match=r"program vfs: expected the output of a recorded link, got 'bin/vfs'"):
        link_program(program, corpus.path, {}, tmp_path / "out", toolchain)


@pytest.mark.slow  # the first link compiles the C library
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not shutil.which("valgrind") and not has_hardware_counter(), reason="nothing counts instructions")
class TestPrograms:
    """Programs that are linked and run."""

    def test_a_wrong_output_fails_alone_and_in_the_exit_status(self, tmp_path: Path) -> None:
        text = ENTRY.format(name="right", sha256=RIGHT) + ENTRY.format(name="wrong", sha256=WRONG)
        both = f'runs = [{{arguments = ["2"], sha256 = "{RIGHT}"}}, '
        text += ENTRY.format(name="twice", sha256=RIGHT).replace("runs = [", both)
        small_corpus(tmp_path / "corpus", text)
        command = ("evaluate", "mlgo/Inline-v0", "--policy", "default,always", "--run", "--corpus", tmp_path / "corpus")
        with pytest.raises(MlgoError, match="--trust-flags"):
            run(*command)
        result = run(*command, "--trust-flags", "--output", tmp_path / "output", "--json")
        rows = json.loads(result.stdout)["programs"]
        assert result.exit_code == 1
        assert json.loads((tmp_path / "output" / "programs.json").read_bytes()) == rows
        assert [(row["policy"], row["program"]) for row in rows] == [
            (policy, program) for policy in (PLAIN, "default", "always") for program in ("right", "twice", "wrong")
        ]
        plain, default, always = (row for row in rows if row["program"] == "right")
        assert (default["size"], default["instructions"]) == (plain["size"], plain["instructions"])
        assert always["size"] > plain["size"]
        assert 10_000 < always["instructions"] < plain["instructions"]
        twice = next(row for row in rows if row["program"] == "twice")
        assert twice["instructions"] > 1.9 * plain["instructions"]
        assert twice["memory"] < 1.5 * plain["memory"]
        for row in rows:
            if row["program"] == "wrong":
                assert "expected output with the SHA-256 0000000000000000…, got" in row["error"]
                assert "starts with b'0\\n'; the compiled program is wrong" in row["error"]


SHELL = shutil.which("sh") or "/bin/sh"
SOURCE = """
static volatile long sum;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sum += i; }
int main(int count, char **words) { work(1000 * count); return count == 9; }
"""


def test_a_run_has_its_output_time_memory_and_perhaps_instructions(tmp_path: Path) -> None:
    words = [SHELL, "-c", "echo 45"]
    small = run_program(words, tmp_path)
    large = run_program([sys.executable, "-c", "b'x' * (128 << 20)"], tmp_path, timeout=60)
    assert small.output == b"45\n"
    assert 0 < small.seconds < 60
    assert small.memory < 32 << 20 < 128 << 20 < large.memory
    if has_hardware_counter():
        assert count_program(words, tmp_path, "hardware").instructions
    else:
        assert small.instructions is None
        with pytest.raises(MlgoError, match="expected a hardware counter, got none; use the counter cachegrind"):
            count_program(words, tmp_path, "hardware")
    assert not any(tmp_path.iterdir())


def test_a_failure_names_its_ending(tmp_path: Path) -> None:
    for script, ending in (("exit 3", "exit status 3"), ("kill -6 $$", "signal 6")):
        with pytest.raises(MlgoError, match=rf"expected exit status 0 of .*sh, got {ending}; the program is wrong"):
            run_program([SHELL, "-c", script], tmp_path)
    with pytest.raises((MlgoError, ToolchainError), match=r"did not finish within 1 s|signal 24|signal 9"):
        run_program([SHELL, "-c", "while :; do :; done"], tmp_path, timeout=1)


@pytest.mark.skipif(not confinement_support()[0], reason="the kernel has no Landlock")
def test_a_program_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    run_program([SHELL, "-c", f"echo > {folder / 'inside'}"], folder)
    with pytest.raises(MlgoError, match="exit status"):
        run_program([SHELL, "-c", f"echo > {outside}"], folder)
    assert not outside.exists()


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["cachegrind", "hardware", "wasm32-wasi", "aarch64-linux"])
def test_counts_are_equal_in_two_runs_and_grow_with_the_work(name: str, tmp_path: Path) -> None:
    source, program, folder = tmp_path / "program.c", tmp_path / "program", tmp_path / "folder"
    source.write_text(SOURCE)
    folder.mkdir()
    counter: Literal["cachegrind", "hardware"] = "cachegrind" if name == "cachegrind" else "hardware"
    target: tuple[str, ...] = (PROGRAM_TARGET,)
    machine = None
    if name in TARGETS:
        try:
            target, machine = TARGETS[name].zig, find_emulator(TARGETS[name])
        except MlgoError as error:
            pytest.skip(str(error))
    elif shutil.which("valgrind") is None if name == "cachegrind" else not has_hardware_counter():
        pytest.skip(f"{name} counts no instructions here")
    command = [*bundled_command("cc"), "-target", *target, "-static", "-O1", str(source), "-o", str(program)]
    built = run_bounded(command, writable=None)
    assert built.returncode == 0, built.stderr

    def count(*words: str) -> Count:
        command = [str(program), *words]
        return run_program(command, folder, emulator=machine) if machine else count_program(command, folder, counter)

    small, again, large = count("a"), count("a"), count("a", "a", "a", "a")
    assert name == "hardware" or small.instructions == again.instructions
    assert 3000 * 2 < (large.instructions or 0) - (small.instructions or 0) < 3000 * 40
    if name == "cachegrind":
        assert small.instructions == sum(small.functions.values())
        assert large.functions["work"] / small.functions["work"] == pytest.approx(2.5, rel=1e-2)
    with pytest.raises(MlgoError, match=r"expected exit status 0 of .*, got exit status 1; the program is wrong"):
        count(*"a" * 8)
    assert list(folder.iterdir()) == []
