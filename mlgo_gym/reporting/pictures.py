"""Figures as files, and as pictures inside a page: with names on their points, and colours that the page chooses."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

from mlgo_gym.reporting.plots import GRID, INK, Figure, plotting

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_RESOLUTION = 160
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write_figures(figures: list[Figure], folder: Path) -> list[Path]:
    """Write each figure as `NAME.svg` and `NAME.png`, on white, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in figures:
        for ending in ("svg", "png"):
            path = folder / f"{figure.name}.{ending}"
            more = {"metadata": _NO_METADATA} if ending == "svg" else {"dpi": _RESOLUTION}
            with plotting().rc_context({"svg.fonttype": "path", "svg.hashsalt": figure.name}):
                figure.picture.savefig(path, facecolor="white", **more)
            paths.append(path)
    return paths


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element for a page.

    Its texts are texts, in the page's font; ink and grid have the page's colours `currentColor` and `--grid`; each
    labelled point has a `<title>`, which browsers show when the pointer is on it.

    Args:
        figure: the figure.
        prefix: what begins the ids in it; no two figures of a page may have the same.
    """
    buffer = io.StringIO()
    with plotting().rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.picture.savefig(buffer, format="svg", metadata=_NO_METADATA)
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for unwanted in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(unwanted)
    for group in root.iter(f"{{{_SVG}}}g"):
        labels = figure.labels.get(group.get("id", ""))
        if labels is not None:
            _name_points(group, labels)
    _rename_ids(root, prefix)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", f"{figure.title}. {figure.text}")
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    text = text.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    text = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", text)
    return re.sub(r"\n\s*", "\n", text)


def _name_points(group: ElementTree.Element, labels: list[str]) -> None:
    points = list(group.iter(f"{{{_SVG}}}use"))
    if len(points) != len(labels):
        raise AssertionError(f"{len(labels)} points were to be named, and matplotlib drew {len(points)}")
    for point, label in zip(points, labels, strict=True):
        ElementTree.SubElement(point, f"{{{_SVG}}}title").text = label


def _rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Give what is referred to ids of its own in the page, and take the ids of everything else away."""
    text = ElementTree.tostring(root, encoding="unicode")
    wanted = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    for element in root.iter():
        known = element.get("id")
        if known is not None:
            if known in wanted:
                element.set("id", f"{prefix}-{known}")
            else:
                del element.attrib["id"]
        for name, value in list(element.attrib.items()):
            if name == f"{{{_XLINK}}}href":
                del element.attrib[name]
                element.set("href", f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}-"))
