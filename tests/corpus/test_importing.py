"""Corpora from Parquet files (skipped without pyarrow)."""

from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import CorpusError, open_corpus
from mlgo_gym.corpus.importing import import_parquet
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.llvm.toolchain import Toolchain

Rows = list[dict[str, Any]]


def write(path: Path, rows: Any) -> Path:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows) if isinstance(rows, list) else rows, path)
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


def test_rows_are_modules_with_their_metadata(rows: Rows, calls: Path, tmp_path: Path, toolchain: Toolchain) -> None:
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


def test_rows_without_bitcode_are_skipped_and_named_and_no_language_leads_out(rows: Rows, tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    contents = [b"no bitcode", rows[0]["content"], None, rows[1]["content"]]
    languages = arrow.array([b"c", b"../../etc", b"c", b"c\xff"]).view(arrow.utf8())
    path = write(tmp_path / "x.parquet", arrow.table({"content": contents, "language": languages}))
    report = import_parquet([path], tmp_path / "corpus")
    (name,) = report.modules
    assert name.startswith("_.._etc/")
    assert [label for label, _ in report.skipped] == ["x.parquet:0", "x.parquet:2", "x.parquet:3"]
    assert "its values cannot be read: 'utf-8' codec" in report.skipped[2][1]


def test_another_file_is_an_error_that_names_it(rows: Rows, tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("text")
    for path in (tmp_path / "text.parquet", tmp_path / "none.parquet"):
        pytest.importorskip("pyarrow")
        with pytest.raises(CorpusError, match=path.name):
            import_parquet([path], tmp_path / "corpus")
    with pytest.raises(CorpusError, match="a column 'content'"):
        import_parquet([write(tmp_path / "x.parquet", [{"code": b"x"}])], tmp_path / "corpus")
