"""Random programs; tests that need csmith are skipped where it is not installed."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.modules.csmith import csmith_corpus
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

needs_csmith = pytest.mark.skipif(shutil.which("csmith") is None, reason="csmith is not installed")


@needs_csmith
def test_a_seed_always_gives_the_same_program(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for name in ("one", "two"):
        monkeypatch.setenv("MLGO_CACHE", str(tmp_path / name))
        digests.append([module.digest() for module in open_corpus("csmith:13:2", toolchain=toolchain)])
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]


@needs_csmith
def test_corpora_that_overlap_share_their_programs(toolchain: Toolchain) -> None:
    first, second = open_corpus("csmith:13:2", toolchain=toolchain), open_corpus("csmith:14:1", toolchain=toolchain)
    assert list(first.names) == ["13", "14"]
    assert first.module("14") == second.module("14")


@needs_csmith
def test_the_programs_compile_with_every_clang(any_toolchain: Toolchain) -> None:
    corpus = open_corpus("csmith:13:2", toolchain=any_toolchain)
    assert verify(corpus, any_toolchain) == []


@needs_csmith
def test_a_level_can_be_chosen(toolchain: Toolchain) -> None:
    module = open_corpus("csmith:13:1@O2", toolchain=toolchain).module("13")
    assert module.metadata["optimize"] == "O2"
    assert "-O2" in (module.flags or ())


@needs_csmith
def test_without_a_count_the_corpus_is_infinite_and_generates_nothing_in_advance(
    toolchain: Toolchain, own_cache: Path
) -> None:
    corpus = open_corpus("csmith:5", toolchain=toolchain)
    assert corpus.infinite
    assert list(itertools.islice(corpus.names, 3)) == ["5", "6", "7"]
    assert "1000000000" in corpus
    assert "4" not in corpus
    assert "05" not in corpus
    assert not (own_cache / "csmith").exists()
    with pytest.raises(CorpusError, match="no module '4'"):
        corpus.module("4")


@needs_csmith
def test_an_infinite_corpus_cannot_be_iterated_to_its_end(toolchain: Toolchain) -> None:
    corpus = open_corpus("csmith:5", toolchain=toolchain)
    for iterate in (
        lambda: corpus.filter(names="*"),
        lambda: corpus.split("train"),
        lambda: corpus.sorted_by_size(),
        lambda: corpus.sample(1, seed=0, strata=2),
        lambda: open_corpus("csmith:5,builtin", toolchain=toolchain),
    ):
        with pytest.raises(CorpusError, match="is infinite"):
            iterate()


@needs_csmith
def test_an_environment_runs_it(toolchain: Toolchain) -> None:
    environment = InlineEnv(corpus="csmith:13", clang="bundled", max_decisions=1)
    _, info = environment.reset(seed=7)
    name = info["module"]
    _, info = environment.reset(seed=7)
    assert info["module"] == name
    _, _, terminated, truncated, info = environment.step(info["default_action"])
    assert (terminated, truncated) == (True, False), info
    environment.close()


@needs_csmith
@pytest.mark.parametrize("spec", ["", "x", "-1", "1:0", "1:x", "1:2:3", str(2**40)])
def test_invalid_numbers_are_an_error(toolchain: Toolchain, spec: str) -> None:
    with pytest.raises(CorpusError, match="got csmith:"):
        csmith_corpus(spec, toolchain)


def test_a_missing_csmith_is_an_error_that_says_how_to_get_it(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="apt install csmith"):
        open_corpus("csmith:1:1", toolchain=toolchain)


def test_missing_headers_are_an_error_that_says_how_to_get_them(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "csmith"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CSMITH_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="apt install libcsmith-dev"):
        open_corpus("csmith:1:1", toolchain=toolchain)
