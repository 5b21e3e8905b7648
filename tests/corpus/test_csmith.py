"""Random programs; tests that need csmith are skipped where it is not installed."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("csmith") is None, reason="csmith is not installed")
def test_a_seed_always_gives_the_same_program_and_a_corpus_may_be_infinite(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for name in ("one", "two"):
        monkeypatch.setenv("MLGO_CACHE", str(tmp_path / name))
        digests.append([module.digest() for module in open_corpus("csmith:13:2", toolchain=toolchain)])
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]
    corpus = open_corpus("csmith:5", toolchain=toolchain)
    assert corpus.infinite
    assert list(itertools.islice(corpus.names, 3)) == ["5", "6", "7"]
    assert ("1000000000" in corpus, "4" in corpus, "05" in corpus) == (True, False, False)
    for spec in ("", "x", "-1", "1:0", "1:x", "1:2:3", str(2**40)):
        with pytest.raises(CorpusError, match="got csmith:"):
            open_corpus(f"csmith:{spec}", toolchain=toolchain)


def test_a_missing_csmith_or_header_is_an_error_that_says_how_to_get_it(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="apt install csmith"):
        open_corpus("csmith:1:1", toolchain=toolchain)
    program = tmp_path / "csmith"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CSMITH_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="apt install libcsmith-dev"):
        open_corpus("csmith:1:1", toolchain=toolchain)
