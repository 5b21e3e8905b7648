"""The link steps of a recorded build: `links.json` in the folder of its corpus, read and written."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.description import is_outside, read_json_object
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.json_text import check_values

LINKS_FILE = "links.json"
LINKS_FOLDER = "links"
"""Folder in a corpus for linked files that are neither modules nor outputs of other links."""


@dataclass(frozen=True, slots=True)
class LinkPart:
    """An object of a link, by itself or in an archive.

    Attributes:
        name: name in the archive, or the path that the build gave.
        sha256: digest of the build's object; None if the link compiled its source.
        module: module of the corpus that it was compiled from, or None.
        file: path relative to the corpus if it is not a module, or None.
    """

    name: str
    sha256: str | None = None
    module: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class LinkInput:
    """A file that an argument of a link names.

    Attributes:
        position: index of the argument.
        named: part of the argument that names the file: all of it, or the text after `-Wl,--version-script=`.
        kind: `object`, `archive`, `shared` (library of the build), `source` or `file` (linker script).
        parts: the file itself, or the members of an archive in order.
        link: output of the link that made a shared library of the build, else None.
    """

    position: int
    named: str
    kind: str
    parts: tuple[LinkPart, ...]
    link: str | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules in it."""
        return tuple(part.module for part in self.parts if part.module is not None)


@dataclass(frozen=True, slots=True)
class Link:
    """One successful link step.

    Attributes:
        output: path of the output, relative to the root of the build.
        driver: `c` or `c++`, the language of the driver.
        folder: working directory, relative to the root.
        arguments: driver arguments, with response files expanded.
        output_position: index of the argument that names the output; None for `a.out`.
        output_named: part of that argument.
        lto: `thin` or `full` if the build optimised at this link, else None.
        inputs: files that arguments name, in order.
        target: target of the bundled clang, as for `driver_options()`.
    """

    output: str
    driver: str
    folder: str
    arguments: tuple[str, ...]
    output_position: int | None
    output_named: str
    lto: str | None
    inputs: tuple[LinkInput, ...]
    target: str | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """Unique names of the linked modules, in the order of the link."""
        return tuple(dict.fromkeys(name for each in self.inputs for name in each.modules))


def read_links(folder: Path) -> tuple[Link, ...]:
    """Return the link steps of a recorded corpus in the order in which they ended; empty without a record.

    Raises `CorpusError` if `links.json` is malformed, or names a file outside of the corpus.
    """
    path = folder / LINKS_FILE
    try:
        content = read_json_object(path, "record the build again")
    except FileNotFoundError:
        return ()
    try:
        links = tuple(_link(entry, content.get("target")) for entry in content["links"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorpusError(f"{path}: expected a list of link steps: {error!r}; record the build again") from error
    for link in links:
        for name in (name for each in link.inputs for part in each.parts for name in (part.module, part.file)):
            if name is not None and is_outside(name):
                raise CorpusError(f"{path}: {name!r} leads out of the corpus folder; correct or remove it")
    return links


def _link(entry: dict[str, Any], target: str | None) -> Link:
    inputs = tuple(
        LinkInput(**{**each, "parts": tuple(LinkPart(**part) for part in each["parts"])}) for each in entry["inputs"]
    )
    output, arguments = entry["output"], tuple(entry["arguments"])
    positions = [each.position for each in inputs] + [output["position"] or 0]
    if not all(isinstance(position, int) and 0 <= position < max(len(arguments), 1) for position in positions):
        raise TypeError(f"expected positions of arguments, got {positions}")
    link = Link(
        output=output["path"],
        driver=entry["driver"],
        folder=entry["folder"],
        arguments=arguments,
        output_position=output["position"],
        output_named=output["named"],
        lto=entry["lto"],
        inputs=inputs,
        target=target,
    )
    for record in (link, *inputs, *(part for each in inputs for part in each.parts)):
        check_values(record)
    return link


_UNSAFE = re.compile(r"[^\w.+-]+")


class LinkWriter:
    """Writes the link steps of a build to its corpus, with their number by reason in `skipped` for the others.

    `store` is the folder of the recording, with copies of linked files. `relative` returns a path relative to the root
    of the build.
    """

    def __init__(self, store: Path, corpus: Path, relative: Callable[[str], str]) -> None:
        self._store, self._corpus, self._relative = store, corpus, relative
        self._by_digest: dict[str, str] = {}
        self._by_source: dict[str, str] = {}
        self._lto: dict[str, str | None] = {}
        self.skipped: Counter[str] = Counter()

    def add(self, record: Mapping[str, Any], name: str) -> None:
        """Add the record of a compile, and the name of its module."""
        self._lto.setdefault(name, record["lto"])
        if record["object"] is None:  # a link compiled the source
            self._by_source[record["source"]] = name
        elif record["object_sha256"] is not None:
            self._by_digest.setdefault(record["object_sha256"], name)

    def write(self, links: Sequence[dict[str, Any]], target: str | None) -> int:
        """Write `links.json` and return the number of its links.

        `links` are results of `shim_links.describe_link()`, in the order in which the links ended. The target is that
        of `Link`.
        """
        last = {link["output"]["path"]: link for link in links}
        outputs = {link["output"]["sha256"]: self._relative(path) for path, link in last.items()}
        entries = [self._link(link, outputs) for link in links if last[link["output"]["path"]] is link]
        kept = [entry for entry in entries if entry is not None]
        if kept:
            content = json.dumps({"target": target, "links": kept}, indent=1) + "\n"
            write_atomically(self._corpus / LINKS_FILE, content.encode())
        return len(kept)

    def _link(self, link: dict[str, Any], outputs: Mapping[str, str]) -> dict[str, Any] | None:
        inputs = []
        for each in link["inputs"]:
            entry: dict[str, Any] = {key: each[key] for key in ("position", "named", "kind")}
            if each["kind"] == "shared" and each["sha256"] in outputs:
                inputs.append({**entry, "link": outputs[each["sha256"]], "parts": []})
                continue
            members = each.get("members", [{"name": self._relative(each["path"]), "sha256": each.get("sha256")}])
            parts = [self._part(member, each) for member in members]
            if None in parts:
                self.skipped["a link of an object that was not recorded"] += 1
                return None
            inputs.append({**entry, "parts": parts})
        linked = [part["module"] for entry in inputs for part in entry["parts"] if "module" in part]
        if not linked:
            self.skipped["a link without modules"] += 1
            return None
        return {
            "output": {**link["output"], "path": self._relative(link["output"]["path"])},
            "driver": link["driver"],
            # A link without -flto also optimises objects that are bitcode.
            "lto": link["lto"] or next(filter(None, map(self._lto.get, linked)), None),
            "folder": self._relative(link["folder"]),
            "arguments": link["arguments"],
            "inputs": inputs,
        }

    def _part(self, member: dict[str, Any], each: dict[str, Any]) -> dict[str, Any] | None:
        """Return the entry of an object: a module, or a file that is copied to the corpus; None if neither exists."""
        digest = member["sha256"]
        part = {"name": member["name"], "sha256": digest}
        is_source = each["kind"] == "source"
        module = self._by_source.get(each["path"]) if is_source else self._by_digest.get(digest)
        if module is not None:
            return {**part, "module": module}
        copy = self._store / "files" / str(digest)
        if not copy.is_file():
            return None
        target = self._corpus / LINKS_FOLDER / f"{digest[:16]}-{_UNSAFE.sub('_', Path(member['name']).name)}"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(copy, target)
        return {**part, "file": str(target.relative_to(self._corpus))}
