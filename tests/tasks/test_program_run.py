"""Programs, linked, run and measured; and under `evaluate --run`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.metrics import link_program, read_programs
from mlgo_gym.tasks.metrics.counters import has_hardware_counter
from tests.cli.command import run
from tests.tasks.small_corpus import ENTRY, RIGHT, WRONG, small_corpus


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
