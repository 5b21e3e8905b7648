"""The notebook runs from top to bottom, is committed with its outputs, and becomes a page of the site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.site.notebooks import as_markdown

NOTEBOOK = Path(__file__).parents[1] / "examples" / "inlining.ipynb"


@pytest.mark.libraries
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own parts
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    said = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    shown = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert "inline-os-fast against threshold:5" in said
    assert {"image/png", "image/svg+xml"} <= shown


def test_the_committed_notebook_has_an_output_for_each_cell_that_prints_or_draws() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["source"][0] for cell in cells if not cell["outputs"]] == [cells[0]["source"][0]]  # imports
    assert NOTEBOOK.stat().st_size < 300_000


def test_the_page_of_the_notebook_shows_outputs_and_asks_no_other_host() -> None:
    page = as_markdown(NOTEBOOK)
    assert page.count("```python\n") == 8
    assert page.count("```text\n") >= 4
    assert {"image/png", "image/svg+xml"} == set(re.findall(r'src="data:([^;]+);base64,', page))
    assert not re.search(r'(?:src|href)="https?:', page)
    assert not re.search(r"/(?:tmp|home|root|work)/", page)
