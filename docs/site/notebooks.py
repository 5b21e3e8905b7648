"""Shows a notebook with its outputs as a page in Markdown; nothing on it comes from another host."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TEXT_OUTPUTS = ("stream", "execute_result")


def as_markdown(path: Path) -> str:
    """Return a notebook as a page: text, code, printed text and pictures."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        picture = _picture(data)
        if picture:
            yield picture
        elif output["output_type"] in _TEXT_OUTPUTS:
            text = "".join(output.get("text", data.get("text/plain", "")))
            yield f"```text\n{_COLOURS.sub('', text).rstrip()}\n```"


def _picture(data: Mapping[str, Any]) -> str:
    """Return the picture of an output inside the page itself; an empty string without a picture."""
    if "image/svg+xml" in data:
        encoded = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="output of the code above" src="data:image/svg+xml;base64,{encoded}">'
    if "image/png" in data:
        encoded = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="output of the code above" src="data:image/png;base64,{encoded}">'
    return ""
