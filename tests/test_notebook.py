"""The notebook runs from top to bottom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
    assert "inline-os against threshold:5" in said
    assert {"image/png", "image/svg+xml"} <= shown
