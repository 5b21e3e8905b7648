"""What mkdocs needs to make a site of this repository: pages that lie outside docs/, and links between all of them.

The README is the home page. Anything else outside docs/ that a page links to (the changelog, examples)
becomes a page or a file of the site below `repository/`. The manual of the command line is the output of Typer.
"""

from __future__ import annotations

import importlib
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site.environments import arguments_page, environments_page, features_page
from docs.site.numbers import measurements_page
from mlgo_gym.corpus.datasets.catalogue import catalogue_page

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(\]\()([^)#\s:]+)(?=[)#])")
_PICTURE = re.compile(r'<picture><source [^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)"></picture>')
_HOME, _ELSEWHERE = "index.md", "repository/"
_OVERVIEW = "reference/overview.md"
_ONLY_HERE = {
    "arguments and infos": "arguments.md",
    "features": "features.md",
    "datasets": "datasets.md",
    "commands and dates of all measurements": "../results/measurements.md",
}
"""Generated pages that the navigation lacks, as seen from the overview."""

_PACKAGES = ("", "corpus", "policies", "evaluation", "evaluation.explanation", "search", "training", "integrations")
"""Packages below `mlgo_gym` whose public names are the Python API; a name of two packages is shown at the first."""

_MODULES = ("errors", "evaluation.statistics", "evaluation.comparison", "llvm.toolchain", "llvm.object_file")
"""Modules that it shows as a whole."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the home page, the manual, and everything outside docs/ that pages link to."""
    files.append(File.generated(config, _HOME, abs_src_path=str(ROOT / "README.md")))
    for uri, page_of in _GENERATED.items():
        files.append(File.generated(config, uri, content=page_of()))
    waiting = [file.src_uri for file in files if file.src_uri.endswith(".md") and file.src_uri not in _GENERATED]
    while waiting:
        page = _source(waiting.pop())
        for link in _LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
            uri = _uri(target)
            if files.get_file_from_path(uri) is not None or not uri.startswith(_ELSEWHERE):
                continue
            if (ROOT / target).is_dir():
                files.append(File.generated(config, uri, content=_listing(target)))
            elif (ROOT / target).is_file():
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
                if uri.endswith(".md"):
                    waiting.append(uri)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links lead to where their targets are on the site, and figures follow its switch of colours."""
    here = page.file.src_uri
    if here == _HOME:
        page.meta["hide"] = ["toc"]
    if here in _GENERATED or (here.startswith(_ELSEWHERE) and page.file.abs_src_path is None):
        return markdown
    source = posixpath.dirname(_source(here))

    def led(link: re.Match[str]) -> str:
        target = _uri(posixpath.normpath(posixpath.join(source, link[2])))
        return link[1] + posixpath.relpath(target, posixpath.dirname(here) or ".")

    if here == _OVERVIEW:
        markdown += f"\n\nOnly on the site: {', '.join(f'[{title}]({uri})' for title, uri in _ONLY_HERE.items())}.\n"
    # GitHub chooses a figure by the browser's preference, the site by its own switch.
    markdown = _PICTURE.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", markdown)
    # What is code is no link.
    parts = re.split(r"(^```.*?^```|`[^`\n]*`)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else _LINK.sub(led, part) for number, part in enumerate(parts))


def _source(uri: str) -> str:
    """Return the path in the repository of what has an address on the site."""
    if uri == _HOME:
        return "README.md"
    return uri.removeprefix(_ELSEWHERE) if uri.startswith(_ELSEWHERE) else f"docs/{uri}"


def _uri(path: str) -> str:
    """Return the address on the site of a path in the repository."""
    if path == "README.md":
        return _HOME
    if path.startswith("docs/"):
        within = path.removeprefix("docs/")
        return f"{within}/index.md" if (ROOT / path).is_dir() else within
    return f"{_ELSEWHERE}{path}/index.md" if (ROOT / path).is_dir() else f"{_ELSEWHERE}{path}"


def _listing(folder: str) -> str:
    """Return a page that shows the files of a folder."""
    files = sorted((ROOT / folder).glob("*.py"))
    return f"# {folder}\n\n" + "\n\n".join(f"## {path.name}\n\n```python\n{path.read_text()}```" for path in files)


def _api() -> str:
    """Return the page of the public functions and classes, for mkdocstrings."""
    lines = ["# Python API", ""]
    shown: set[str] = set()
    for package in _PACKAGES:
        module = importlib.import_module(f"mlgo_gym.{package}".rstrip("."))
        objects = [getattr(module, name) for name in module.__all__]
        names = [f"{each.__module__}.{each.__qualname__}" for each in objects if callable(each)]
        lines += [f"## {module.__name__}", "", *(f"::: {name}" for name in names if name not in shown), ""]
        shown.update(names)
    return "\n".join([*lines, *(f"::: mlgo_gym.{name}" for name in _MODULES), ""])


def _manual() -> str:
    """Return the manual of every command, and the options of the compiler wrapper."""
    program = ["typer", "--app", "application", "mlgo_gym.cli.application", "utils", "docs", "--name", "mlgo-gym"]
    return f"{_printed(*program)}\n## `mlgo-clang`\n\n```text\n{_printed('mlgo_clang.__main__', '--mlgo-help')}```\n"


def _printed(*module: str) -> str:
    """Return the output of a module and its arguments. Typer draws with colours where it thinks that somebody looks."""
    plain = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    return subprocess.run([sys.executable, "-m", *module], capture_output=True, text=True, check=True, env=plain).stdout


_GENERATED = {
    "manual.md": _manual,
    "api.md": _api,
    "reference/environments.md": environments_page,
    "reference/arguments.md": arguments_page,
    "reference/features.md": features_page,
    "reference/datasets.md": catalogue_page,
    "results/measurements.md": measurements_page,
}
"""Pages that exist on the site only, by address: the reference that docstrings and tables of the package contain."""
