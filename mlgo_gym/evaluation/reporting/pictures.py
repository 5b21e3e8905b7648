"""Figures as files, and as SVG elements of a page with labelled points and the colours of the page."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

from mlgo_gym.evaluation.reporting.plots import GRID, INK, Figure, plotting

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_DPI = 160
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write_figures(figures: list[Figure], folder: Path) -> list[Path]:
    """Write each figure as `NAME.svg` and `NAME.png` on white, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in figures:
        for ending in ("svg", "png"):
            path = folder / f"{figure.name}.{ending}"
            more = {"metadata": _NO_METADATA} if ending == "svg" else {"dpi": _DPI}
            with plotting().rc_context({"svg.fonttype": "path", "svg.hashsalt": figure.name}):
                figure.picture.savefig(path, facecolor="white", **more)
            paths.append(path)
    return paths


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element for a page.

    Texts stay texts, in the font of the page. Ink and grid have the colours `currentColor` and `--grid` of the page. A
    labelled point has a `<title>`, which browsers show under the pointer. The prefix of all ids is unique in the page.
    """
    buffer = io.StringIO()
    with plotting().rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.picture.savefig(buffer, format="svg", metadata=_NO_METADATA)
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for unused in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(unused)
    for group in root.iter(f"{{{_SVG}}}g"):
        labels = figure.labels.get(group.get("id", ""))
        if labels is not None:
            _label_points(group, labels)
    _rename_ids(root, prefix)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", f"{figure.title}. {figure.text}")
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    text = text.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    text = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", text)
    return re.sub(r"\n\s*", "\n", text)


def _label_points(group: ElementTree.Element, labels: list[str]) -> None:
    points = list(group.iter(f"{{{_SVG}}}use"))
    if len(points) != len(labels):
        raise AssertionError(f"expected {len(labels)} points of matplotlib, got {len(points)}")
    for point, label in zip(points, labels, strict=True):
        ElementTree.SubElement(point, f"{{{_SVG}}}title").text = label


def _rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Prefix the ids that the element refers to, and remove all others."""
    text = ElementTree.tostring(root, encoding="unicode")
    referenced = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    for element in root.iter():
        name = element.get("id")
        if name in referenced:
            element.set("id", f"{prefix}-{name}")
        elif name is not None:
            del element.attrib["id"]
        for attribute, value in list(element.attrib.items()):
            if attribute == f"{{{_XLINK}}}href":
                del element.attrib[attribute]
                element.set("href", f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                element.set(attribute, value.replace("url(#", f"url(#{prefix}-"))
