"""Corpora from Parquet files (skipped without pyarrow)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.importing import import_parquet
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

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
