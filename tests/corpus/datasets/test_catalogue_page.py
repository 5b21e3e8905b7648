"""The page of all datasets follows from the catalogue and is current."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.datasets import catalogue_page, dataset, fetch
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset, Part, dataset_names, find_dataset
from mlgo_gym.corpus.datasets.catalogue_page import cached_reports, page, static_cells, totals
from mlgo_gym.corpus.datasets.dataset import DatasetReport
from mlgo_gym.corpus.recording.recorder import RecordFailure
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.package_index import serve, source_distribution

ROOT = Path(__file__).parents[3]

REPORTS = [
    DatasetReport("lz4", Path("lz4"), 4, 7000, {"C": 4}, (), 1.5, 2.0, 2),
    DatasetReport("snappy", Path("snappy"), 6, 500, {"C": 1, "C++": 5}, (RecordFailure("a.cc", "no"),), 60.0, 90.0, 2),
]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table of a page, the heading included."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def test_the_committed_page_has_what_the_catalogue_says_of_each_dataset() -> None:
    _, *entries, _ = rows((ROOT / "docs" / "reference" / "datasets.md").read_text())
    expected = [list(static_cells(find_dataset(name))) for name in dataset_names()]
    assert [entry[:4] for entry in entries] == expected, "run `mlgo-gym corpus catalogue`"


def test_the_committed_totals_are_those_of_the_rows() -> None:
    text = (ROOT / "docs" / "reference" / "datasets.md").read_text()
    _, *entries, last = rows(text)
    assert last[0] == "all"
    for column in range(5, 10):
        assert sum(number(entry[column]) for entry in entries) == pytest.approx(number(last[column]))
    (quoted,) = re.findall(r"compiles them: (.*?)\. Sources", text)
    assert quoted.startswith(f"{len(entries)} datasets, {last[5]} modules ")
    assert f" {last[6]} lines," in quoted


def test_the_catalogue_has_at_least_1500_modules_and_300000_lines() -> None:
    _, *entries, last = rows((ROOT / "docs" / "reference" / "datasets.md").read_text())
    assert len(entries) >= 16
    assert number(last[5]) >= 1_500
    assert number(last[6]) >= 300_000
    assert sum("C++" in entry[4] for entry in entries) >= 8
    assert sum(entry[4] == "C" for entry in entries) >= 8


def test_a_page_has_a_row_for_each_dataset_and_one_for_all(toolchain: Toolchain) -> None:
    text = page(REPORTS, toolchain, "Os")
    assert f"at -Os by clang {toolchain.version_text}" in text
    assert "with 2 concurrent compilers" in text
    assert rows(text)[1:] == [
        [*static_cells(find_dataset("lz4")), "C", "4", "7,000", "0", "1.5", "2.0"],
        [*static_cells(find_dataset("snappy")), "C and C++", "6", "500", "1", "60.0", "90.0"],
        ["all", "", "", "", "", "10", "7,500", "1", "61.5", "92.0"],
    ]
    assert text.endswith("\n- snappy: `a.cc`\n")


def test_without_failures_there_is_no_list_of_them(toolchain: Toolchain) -> None:
    assert "do not compile" not in page([replace(REPORTS[1], failures=())], toolchain, "Oz")


def test_totals_are_one_line() -> None:
    assert totals(REPORTS) == "2 datasets, 10 modules (5 C, 5 C++), 7,500 lines, in 2 minutes of CPU time"


def test_a_dataset_that_is_not_in_the_cache_is_named(own_cache: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"corpus fetch --optimize O2 apsw blosc .* zstd`"):
        cached_reports(toolchain, "O2")


def test_the_command_writes_the_page_of_the_cache(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
    with serve() as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        digest = index.add("tiny-1.0.tar.gz", source_distribution({"a.c": "int a(void) { return 1; }\n"}))
        entry = Dataset("tiny", Archive("tiny", "1.0", digest), "MIT", "one file", (Part(("*.c",)),))
        monkeypatch.setattr(catalogue_page, "dataset_names", lambda: ["tiny"])
        for module in (catalogue_page, dataset):
            monkeypatch.setattr(module, "find_dataset", {"tiny": entry}.__getitem__)
        output = tmp_path / "page.md"
        arguments = ["corpus", "catalogue", "--output", str(output), "--clang", "bundled"]
        missing = CliRunner().invoke(application, arguments)
        assert isinstance(missing.exception, CorpusError)
        assert not output.exists()
        assert CliRunner().invoke(application, ["corpus", "fetch", "tiny", "--jobs", "1"]).exit_code == 0
        assert CliRunner().invoke(application, arguments).exit_code == 0
    assert rows(output.read_text())[1][:8] == ["tiny", "one file", "tiny 1.0", "MIT", "C", "1", "1", "0"]
    assert "with 1 concurrent compilers" in output.read_text()
    assert "1 datasets, 1 modules (1 C, 0 C++), 1 lines" in output.read_text()
