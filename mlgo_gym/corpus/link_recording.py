"""From what shims saw of link steps to `links.json`: objects as modules of the corpus, by their content."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.links import LINKS_FILE, LINKS_FOLDER
from mlgo_gym.storage.cache import write_atomically

_UNSAFE = re.compile(r"[^\w.+-]+")


@dataclass(slots=True)
class ModuleIndex:
    """Which module an object was compiled from.

    Attributes:
        by_digest: by the digest of the object.
        by_source: by the path of the source, for what a link compiled itself.
        lto: the kind of link time optimisation that a module was compiled for.
    """

    by_digest: dict[str, str] = field(default_factory=dict)
    by_source: dict[str, str] = field(default_factory=dict)
    lto: dict[str, str | None] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any], name: str) -> None:
        """Add what one compile has made."""
        self.lto.setdefault(name, record["lto"])
        if record["object"] is None:
            self.by_source[record["source"]] = name
        elif record["object_sha256"] is not None:
            self.by_digest.setdefault(record["object_sha256"], name)


def write_links(
    links: Sequence[dict[str, Any]],
    modules: ModuleIndex,
    store: Path,
    corpus: Path,
    relative: Callable[[str], str],
    *,
    native: bool = False,
) -> tuple[int, Counter[str]]:
    """Write the links of a build beside its corpus; return how many, and those that are left out by reason.

    Args:
        links: what `shim_links.describe_link` said of each, in the order in which they ended.
        modules: the modules of the corpus.
        store: the folder of the recording, with the files that links were given.
        corpus: the folder of the corpus.
        relative: makes a path relative to the root of the build.
        native: whether the bundled clang linked with this machine's libraries and linker.
    """
    left_out: Counter[str] = Counter()
    last = {link["output"]["path"]: link for link in links}
    made = {link["output"]["sha256"]: relative(path) for path, link in last.items()}
    kept = [
        entry
        for link in links
        if last[link["output"]["path"]] is link
        and (entry := _link(link, modules, made, store, corpus, relative, left_out)) is not None
    ]
    if kept:
        write_atomically(corpus / LINKS_FILE, (json.dumps({"native": native, "links": kept}, indent=1) + "\n").encode())
    return len(kept), left_out


def _link(
    link: dict[str, Any],
    modules: ModuleIndex,
    made: Mapping[str, str],
    store: Path,
    corpus: Path,
    relative: Callable[[str], str],
    left_out: Counter[str],
) -> dict[str, Any] | None:
    inputs = []
    for each in link["inputs"]:
        entry: dict[str, Any] = {key: each[key] for key in ("position", "named", "kind")}
        if each["kind"] == "shared" and each["sha256"] in made:
            entry["link"] = made[each["sha256"]]
            entry["parts"] = []
        else:
            members = each.get("members", [{"name": relative(each["path"]), "sha256": each.get("sha256")}])
            parts = [_part(member, each, modules, store, corpus) for member in members]
            if None in parts:
                left_out["a link of what could not be recorded"] += 1
                return None
            entry["parts"] = parts
        inputs.append(entry)
    linked = [part["module"] for entry in inputs for part in entry["parts"] if "module" in part]
    if not linked:
        left_out["a link of no module"] += 1
        return None
    output = link["output"]
    return {
        "output": {**output, "path": relative(output["path"])},
        "driver": link["driver"],
        # Objects that are bitcode are optimised at a link that does not ask for it too.
        "lto": link["lto"] or next(filter(None, map(modules.lto.get, linked)), None),
        "folder": relative(link["folder"]),
        "arguments": link["arguments"],
        "inputs": inputs,
    }


def _part(
    member: dict[str, Any], each: dict[str, Any], modules: ModuleIndex, store: Path, corpus: Path
) -> dict[str, Any] | None:
    """Return what an object is: a module, or else a file that the corpus keeps; None where it is neither."""
    digest = member["sha256"]
    part = {"name": member["name"], "sha256": digest}
    is_source = each["kind"] == "source"
    module = modules.by_source.get(each["path"]) if is_source else modules.by_digest.get(digest)
    if module is not None:
        return {**part, "module": module}
    copy = store / "files" / str(digest)
    if not copy.is_file():
        return None
    target = corpus / LINKS_FOLDER / f"{digest[:16]}-{_UNSAFE.sub('_', Path(member['name']).name)}"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(copy, target)
    return {**part, "file": str(target.relative_to(corpus))}
