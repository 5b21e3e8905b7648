"""The page of all datasets is made from the catalogue, and current."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus import catalogue_page, dataset, fetch
from mlgo_gym.corpus.catalogue import Archive, Dataset, Part, dataset_names, find_dataset
from mlgo_gym.corpus.catalogue_page import BEGIN, END, made_reports, page, static_cells, totals, with_totals
from mlgo_gym.corpus.dataset import DatasetReport
from mlgo_gym.corpus.recorder import RecordFailure
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.package_index import serve, source_distribution

ROOT = Path(__file__).parent.parent.parent

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
    _, *entries, _ = rows((ROOT / "docs" / "datasets.md").read_text())
    expected = [list(static_cells(find_dataset(name))) for name in dataset_names()]
    assert [entry[:4] for entry in entries] == expected, "run `mlgo-gym corpus catalogue`"


def test_the_committed_totals_are_those_of_the_rows_and_quoted_in_the_readme() -> None:
    text = (ROOT / "docs" / "datasets.md").read_text()
    _, *entries, last = rows(text)
    assert last[0] == "all"
    for column in range(5, 10):
        assert sum(number(entry[column]) for entry in entries) == pytest.approx(number(last[column]))
    (quoted,) = re.findall(f"{re.escape(BEGIN)}\n(.*)\n{re.escape(END)}", (ROOT / "README.md").read_text())
    assert f"makes them: {quoted}." in text
    assert quoted.startswith(f"{len(entries)} datasets, {last[5]} modules ")
    assert f" {last[6]} lines," in quoted


def test_there_is_as_much_code_as_was_promised() -> None:
    _, *entries, last = rows((ROOT / "docs" / "datasets.md").read_text())
    assert len(entries) >= 16
    assert number(last[5]) >= 1_500
    assert number(last[6]) >= 300_000
    assert sum("C++" in entry[4] for entry in entries) >= 8
    assert sum(entry[4] == "C" for entry in entries) >= 8


def test_a_page_has_a_row_for_each_dataset_and_one_for_all(toolchain: Toolchain) -> None:
    text = page(REPORTS, toolchain, "Os")
    assert f"at -Os by clang {toolchain.version_text}" in text
    assert "with 2 compilers at a time" in text
    assert rows(text)[1:] == [
        [*static_cells(find_dataset("lz4")), "C", "4", "7,000", "0", "1.5", "2.0"],
        [*static_cells(find_dataset("snappy")), "C and C++", "6", "500", "1", "60.0", "90.0"],
        ["all", "", "", "", "", "10", "7,500", "1", "61.5", "92.0"],
    ]
    assert text.endswith("\n- snappy: `a.cc`\n")


def test_without_failures_there_is_no_list_of_them(toolchain: Toolchain) -> None:
    assert "does not compile" not in page([replace(REPORTS[1], failures=())], toolchain, "Oz")


def test_totals_are_one_line() -> None:
    assert totals(REPORTS) == "2 datasets, 10 modules (5 C, 5 C++), 7,500 lines, in 2 minutes of processor time"


def test_totals_take_the_place_of_older_ones() -> None:
    assert with_totals(f"a\n{BEGIN}\nold\n{END}\nb\n", REPORTS) == f"a\n{BEGIN}\n{totals(REPORTS)}\n{END}\nb\n"
    with pytest.raises(CorpusError, match="marks is missing"):
        with_totals(f"a\n{BEGIN}\n", REPORTS)


def test_a_dataset_that_is_not_made_is_named(own_cache: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"corpus fetch --optimize O2 apsw blosc .* zstd`"):
        made_reports(toolchain, "O2")


def test_the_command_writes_the_page_and_the_totals_of_what_was_made(
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
        output, readme = tmp_path / "page.md", tmp_path / "README.md"
        readme.write_text(f"{BEGIN}\n{END}\n")
        arguments = ["corpus", "catalogue", "--output", str(output), "--readme", str(readme), "--clang", "bundled"]
        unmade = CliRunner().invoke(application, arguments)
        assert isinstance(unmade.exception, CorpusError)
        assert not output.exists()
        assert CliRunner().invoke(application, ["corpus", "fetch", "tiny", "--jobs", "1"]).exit_code == 0
        assert CliRunner().invoke(application, arguments).exit_code == 0
    assert rows(output.read_text())[1][:8] == ["tiny", "one file", "tiny 1.0", "MIT", "C", "1", "1", "0"]
    assert "with 1 compilers at a time" in output.read_text()
    assert "1 datasets, 1 modules (1 C, 0 C++), 1 lines" in readme.read_text()
