"""Corpora from bitcode files, from other corpora, and from Parquet files (skipped without pyarrow)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.folder import write_description
from mlgo_gym.corpus.importing import combine_corpora, import_parquet, make_corpus
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import write_files


def test_other_files_are_skipped_and_named_and_the_output_may_lie_in_the_input_or_be_it(
    tmp_path: Path, calls: Path
) -> None:
    source = write_files(tmp_path / "bitcode", {"calculator.bc": "scale=2\n1/3\n"})
    shutil.copy(calls, source / "top.bc")
    report = make_corpus(source, tmp_path / "corpus")
    assert (report.modules, [name for name, _ in report.skipped]) == (["top"], ["calculator"])
    assert not (tmp_path / "corpus/calculator.bc").exists()
    for output in (source / "corpus", source / "corpus", source):
        assert "top" in make_corpus(source, output).modules
    assert make_corpus(source, source / "other").modules.count("corpus/top") == 1


def test_every_other_key_is_kept_and_one_that_differs_is_an_error(tmp_path: Path) -> None:
    common: dict[str, Any] = {"has_thinlto": True, "global_command_override": ["-cc1"], "project": "p"}
    for key, value in common.items():
        for one, two in (({key: value}, {}), ({}, {key: value})):
            write_description(tmp_path / "one", ["x"], **one)
            write_description(tmp_path / "two", ["x"], **two)
            with pytest.raises(CorpusError, match=f"one and two that differ in {key}"):
                combine_corpora(tmp_path)
            assert not (tmp_path / "corpus_description.json").exists()
    for name in ("one", "two"):
        write_description(tmp_path / name, ["x"], **common)
    combine_corpora(tmp_path)
    content = json.loads((tmp_path / "corpus_description.json").read_text())
    assert content == {"modules": ["one/x", "two/x"], **common}


Rows = list[dict[str, Any]]


def write(path: Path, rows: Rows) -> Path:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def rows(calls: Path, leaf: Path) -> Rows:
    return [
        {
            "content": calls.read_bytes(),
            "language": "c",
            "license_expression": "MIT",
            "size": 7,
            "license_files": ["A"],
        },
        {"content": leaf.read_bytes(), "language": "c++", "license_expression": None, "size": 8, "license_files": []},
    ]


def test_every_row_is_a_module_with_its_columns_as_metadata(
    rows: Rows, calls: Path, tmp_path: Path, toolchain: Toolchain
) -> None:
    report = import_parquet([write(tmp_path / "x.parquet", rows)], tmp_path / "corpus")
    corpus = open_corpus(tmp_path / "corpus", toolchain=toolchain)
    assert list(corpus.names) == report.modules
    assert [name.partition("/")[0] for name in corpus.names] == ["c", "c++"]
    assert corpus[0].bitcode.read_bytes() == calls.read_bytes()
    assert corpus[0].flags is None
    metadata = corpus[0].metadata
    assert metadata["language"] == "c"
    assert metadata["licence"] == metadata["license_expression"] == "MIT"
    assert metadata["license_files"] == ["A"]
    assert metadata["bitcode_sha256"] == corpus[0].digest()
    assert "licence" not in corpus[1].metadata
    assert verify(corpus, toolchain) == []


def test_a_row_whose_text_is_no_utf_8_is_skipped_with_the_reason(rows: Rows, tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    damaged = arrow.array([b"c\xff", b"c++"]).view(arrow.utf8())
    table = arrow.table({"content": [row["content"] for row in rows], "language": damaged})
    parquet.write_table(table, tmp_path / "x.parquet")
    report = import_parquet([tmp_path / "x.parquet"], tmp_path / "corpus")
    assert len(report.modules) == 1
    assert [label for label, _ in report.skipped] == ["x.parquet:0"]
    assert "its values cannot be read: 'utf-8' codec" in report.skipped[0][1]


def test_rows_without_bitcode_are_skipped_and_named(rows: Rows, tmp_path: Path) -> None:
    broken = [{**rows[0], "content": b"no bitcode"}, {**rows[0], "content": None}]
    report = import_parquet([write(tmp_path / "x.parquet", [broken[0], rows[0], broken[1]])], tmp_path / "corpus")
    assert len(report.modules) == 1
    assert [name for name, _ in report.skipped] == ["x.parquet:0", "x.parquet:2"]


def test_languages_and_a_limit_choose_rows(rows: Rows, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", rows)
    assert [name[:4] for name in import_parquet([path], tmp_path / "a", languages=["C++"]).modules] == ["c++/"]
    assert len(import_parquet([path], tmp_path / "b", limit=1).modules) == 1


def test_a_language_never_leads_out_of_the_corpus(rows: Rows, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [{**rows[0], "language": "../../etc"}])
    assert import_parquet([path], tmp_path / "corpus").modules[0].startswith("_.._etc/")


def test_another_file_is_an_error_that_names_it(rows: Rows, tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("text")
    for path in (tmp_path / "text.parquet", tmp_path / "none.parquet"):
        pytest.importorskip("pyarrow")
        with pytest.raises(CorpusError, match=path.name):
            import_parquet([path], tmp_path / "corpus")
    with pytest.raises(CorpusError, match="a column 'content'"):
        import_parquet([write(tmp_path / "x.parquet", [{"code": b"x"}])], tmp_path / "corpus")
