"""Descriptions of runnable programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym import open_corpus
from mlgo_gym.corpus.datasets.catalogue import PROGRAMS, find_dataset
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.tasks.metrics import read_programs
from tests.tasks.small_corpus import ENTRY, MODULE, RIGHT, small_corpus


def test_the_builtin_corpus_and_the_dataset_of_programs_describe_their_programs() -> None:
    corpus = open_corpus("builtin")
    programs = read_programs(corpus)
    assert {program.modules for program in programs} == {(name,) for name in corpus.names if name != "kernels/switchvm"}
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
    ):
        assert before in text
        description.write_text(text.replace(before, after))
        with pytest.raises(CorpusError, match=rf"(?s)programs\.toml: expected .*{message}.*; correct it"):
            read_programs(corpus, trust=True)
    description.unlink()
    with pytest.raises(CorpusError, match=r"expected a corpus with programs\.toml, got"):
        read_programs(corpus, trust=True)
