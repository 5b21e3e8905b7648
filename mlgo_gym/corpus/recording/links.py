"""The link steps of a recorded build: `links.json` in the folder of its corpus, read, written and repeated."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlgo_clang.command_lines import drop_options
from mlgo_clang.invocation import linker_words
from mlgo_gym.cache import write_atomically
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.driver import bundled_caches, linker_command, linker_overrides
from mlgo_gym.corpus.flags import safe_name
from mlgo_gym.corpus.folder import is_outside, read_json_object
from mlgo_gym.errors import CorpusError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.json_files import check_values
from mlgo_gym.storage.temporary_folders import temporary_folder

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
    def parts(self) -> list[LinkPart]:
        """The objects of all inputs, in the order of the link."""
        return [part for file in self.inputs for part in file.parts]

    @property
    def modules(self) -> tuple[str, ...]:
        """Unique names of the linked modules, in the order of the link."""
        return tuple(dict.fromkeys(part.module for part in self.parts if part.module is not None))


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
    for name in (name for link in links for part in link.parts for name in (part.module, part.file)):
        if name is not None and is_outside(name):
            raise CorpusError(f"{path}: {name!r} leads out of the corpus folder; correct or remove it")
    for target in (link.target for link in links[:1]):
        if target is not None and not _TARGET.fullmatch(target):
            raise CorpusError(f"{path}: expected the name of a target, got {target!r}; record the build again")
    return links


def _link(entry: dict[str, Any], target: str | None) -> Link:
    inputs = tuple(
        LinkInput(**{**file, "parts": tuple(LinkPart(**part) for part in file["parts"])}) for file in entry["inputs"]
    )
    output, arguments = entry["output"], tuple(entry["arguments"])
    positions = [file.position for file in inputs] + [output["position"] or 0]
    if not all(isinstance(position, int) and 0 <= position < max(len(arguments), 1) for position in positions):
        raise TypeError(f"expected positions of arguments, got {positions}")
    place = output["path"], entry["driver"], entry["folder"]
    link = Link(*place, arguments, output["position"], output["named"], entry["lto"], inputs, target)
    for record in (link, *inputs, *link.parts):
        check_values(record)
    return link


class LinkWriter:
    """Writes the link steps of a build to its corpus, with their number by reason in `skipped` for the others.

    `store` is the folder of the recording, with copies of linked files. `relative` returns a path relative to the root
    of the build.
    """

    def __init__(self, store: Path, corpus: Path, relative: Callable[[str], str]) -> None:
        self._store, self._corpus, self._relative = store, corpus, relative
        self._by_digest: dict[str, str] = {}
        self._by_source: dict[tuple[str, str], str] = {}
        self._lto: dict[str, str | None] = {}
        self.skipped: Counter[str] = Counter()

    def add(self, record: Mapping[str, Any], name: str) -> None:
        """Add the record of a compile, and the name of its module."""
        self._lto.setdefault(name, record["lto"])
        if record["object"] is None:  # the link of this program compiled the source
            self._by_source[record["program"], record["source"]] = name
        elif record["object_sha256"] is not None:
            self._by_digest.setdefault(record["object_sha256"], name)

    def write(self, links: Sequence[dict[str, Any]], target: str | None) -> int:
        """Write `links.json` and return the number of its links.

        `links` are results of `link_records.record_link()`, in the order in which the links ended. The target is that
        of `Link`.
        """
        last = {link["output"]["path"]: link for link in links}
        outputs = {link["output"]["sha256"]: self._relative(path) for path, link in last.items()}
        described = [self._link(link, outputs) for link in links if last[link["output"]["path"]] is link]
        entries = [entry for entry in described if entry is not None]
        if entries:
            content = json.dumps({"target": target, "links": entries}, indent=1) + "\n"
            write_atomically(self._corpus / LINKS_FILE, content.encode())
        return len(entries)

    def _link(self, link: dict[str, Any], outputs: Mapping[str, str]) -> dict[str, Any] | None:
        inputs = []
        for file in link["inputs"]:
            entry: dict[str, Any] = {key: file[key] for key in ("position", "named", "kind")}
            if file["kind"] == "shared" and file["sha256"] in outputs:
                inputs.append({**entry, "link": outputs[file["sha256"]], "parts": []})
                continue
            members = file.get("members", [{"name": self._relative(file["path"]), "sha256": file.get("sha256")}])
            parts = [self._part(member, file, link["output"]["path"]) for member in members]
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

    def _part(self, member: dict[str, Any], file: dict[str, Any], program: str) -> dict[str, Any] | None:
        """Return the entry of an object: a module, or a file that is copied to the corpus; None if neither exists."""
        digest = member["sha256"]
        part = {"name": member["name"], "sha256": digest}
        is_source = file["kind"] == "source"
        module = self._by_source.get((program, file["path"])) if is_source else self._by_digest.get(digest)
        if module is not None:
            return {**part, "module": module}
        copy = self._store / "files" / str(digest)
        if not copy.is_file():
            return None
        target = self._corpus / LINKS_FOLDER / f"{digest[:16]}-{safe_name(Path(member['name']).name)}"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(copy, target)
        return {**part, "file": str(target.relative_to(self._corpus))}


_ROOT = re.compile(r"--?(entry|undefined|require-defined|export-dynamic-symbol|init|fini)(=|$)|-(u|e(?!xport-dynamic))")
_EXPORTS = {"-shared", "--shared", "-rdynamic", "-E", "--export-dynamic", "-export-dynamic"}


def roots_of_link(link: Link) -> tuple[frozenset[str], bool] | None:
    """Return the names that a link keeps without a reference, and whether it keeps what its file exports.

    None if it keeps everything: without `--gc-sections`, with LTO, and with objects or libraries of unknown references.
    """
    words = linker_words(link.arguments)
    removal = [word for word in words if word.lstrip("-") in ("gc-sections", "no-gc-sections")]
    if not removal or "no-" in removal[-1] or link.lto or any(file.kind in ("shared", "file") for file in link.inputs):
        return None
    options = ((_ROOT.match(word), word, value) for word, value in pairwise([*words, ""]))
    roots = (word[option.end() :] or value for option, word, value in options if option)
    return frozenset(("main", *roots)), not _EXPORTS.isdisjoint(words)


_TARGET = re.compile(r"\w[\w.+-]*")
_MACHINE = re.compile(r"-m(?!llvm)[a-z][a-z0-9.-]*")
_DROPPED = frozenset({"-MD", "-MMD", "-MP", "-MG", "-save-temps", "--save-temps", "--coverage", "-v"})
_DROPPED_WITH_VALUE = frozenset({"-MF", "-MT", "-MQ", "-MJ", "-x"})
_DROPPED_TO_LINKER = ("-Map", "--Map", "--dependency-file", "--out-implib")


def relink(
    link: Link,
    corpus: Path,
    objects: Mapping[str, Path],
    output: Path,
    toolchain: Toolchain,
    *,
    libraries: Mapping[str, Path] | None = None,
    trust_flags: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Repeat a recorded link with other objects.

    An untrusted link cannot write outside of its scratch folder, the folder of the output, and the compiler's cache.

    Args:
        objects: object file by module, for each of `link.modules`.
        toolchain: the clang whose driver links; the bundled one has a C library and libc++.
        libraries: shared libraries of the build that it is linked with, by the output of their link.
        trust_flags: whether to run its arguments unchecked.
        limits: limits of each program of the link; the whole link may take four times the CPU seconds of one.

    Raises:
        UntrustedError: an argument may do more than shape the result.
        CorpusError: an object is missing, or the link fails or exceeds its limits.
        ToolchainError: the link does not end in time.
    """
    if not trust_flags:
        check_link_arguments(link)

    def run(command: list[str], folder: Path, program: str) -> None:
        seconds = None if limits.cpu is None else 4 * limits.cpu
        completed = run_bounded(
            command,
            writable=writable,
            folder=folder,
            timeout=seconds,
            limits=limits,
            name=program,
            environment={"TMPDIR": str(scratch)},
        )
        if completed.returncode != 0:
            raise CorpusError(f"{link.output} cannot be linked; {program} printed:\n{completed.stderr.strip()[-4000:]}")

    def path_of(part: LinkPart) -> Path:
        if part.module is None:
            return (corpus / str(part.file)).absolute()
        if part.module not in objects:
            raise CorpusError(f"expected an object for the module {part.module}, got none")
        return objects[part.module].absolute()

    def place(file: LinkInput, name: str) -> Path:
        if file.link is not None:
            if file.link not in (libraries or {}):
                raise CorpusError(f"expected the library {file.link} in libraries=, got none; link it first")
            return _linked((libraries or {})[file.link], scratch, Path(file.link).name)
        paths = list(map(path_of, file.parts))
        if file.kind == "archive":
            archive = (scratch / name).with_suffix(".a")
            run([*bundled_command("ar"), "qcs", str(archive), *map(str, paths)], scratch, "the archiver")
            return archive
        if file.kind in ("object", "source") and paths[0].suffix != ".o":
            return _linked(paths[0], scratch, f"{name}.o")
        return paths[0]

    with temporary_folder() as scratch:
        writable = None if trust_flags else (scratch, output.absolute().parent, *bundled_caches())
        files = [place(file, f"{number}-{Path(file.named).name}") for number, file in enumerate(link.inputs)]
        words = _with_files(link, map(str, files))
        linker = linker_command(toolchain, link.driver, link.target)
        run([*linker, *words, *linker_overrides(link.target), "-o", str(output.absolute())], scratch, "the linker")


def check_link_arguments(link: Link) -> None:
    """Raise `UntrustedError` for an untrusted link with an argument that may do more than shape its result."""
    refused = _refused([word for word in _with_files(link, ["input.o"] * len(link.inputs)) if word != "-Xlinker"])
    if refused is not None:
        raise UntrustedError(
            f"the link of {link.output}: expected arguments that only shape the result, got {refused!r}; if you know "
            "the author of the corpus, pass --trust-flags, trust_flags=True"
        )


def _refused(words: Sequence[str], to_linker: str = "") -> str | None:
    """Return the first refused driver argument, or argument of the linker if `to_linker` is `-Wl,`."""
    allowed, kind = _allowed(), "linker_" if to_linker else ""
    with_value = allowed["linker_with_value"] + (() if to_linker else allowed["with_value"])
    rest = iter(words)
    for word in rest:
        value = next(rest, "") if word in with_value else None
        target = value if word == "-target" else word.removeprefix("--target=")
        # clang reads a file of flags beside `folder/x86_64` if that is the target.
        is_path = target not in (None, word) and not _TARGET.fullmatch(str(target))
        if is_path or word.startswith("@") or (value or "").startswith("@"):
            return f"{to_linker}{value or word}"
        if word.startswith("-Wl,"):
            refused = _refused(word.split(",")[1:], "-Wl,")
            if refused is not None:
                return refused
        elif value is None and word.startswith("-"):
            is_warning = word.startswith("-W") and not word.startswith(("-Wp,", "-Wa,"))
            shapes_code = not to_linker and (is_warning or _MACHINE.fullmatch(word))
            if not (shapes_code or word in allowed[f"{kind}flags"] or word.startswith(allowed[f"{kind}joined"])):
                return f"{to_linker}{word}"
    return None


@lru_cache(maxsize=1)
def _allowed() -> dict[str, tuple[str, ...]]:
    table = json.loads((Path(__file__).parent / "allowed_link_arguments.json").read_bytes())
    return {name: tuple(" ".join(lines).split()) for name, lines in table.items()}


def _with_files(link: Link, files: Iterable[str]) -> list[str]:
    """Return the arguments with other input files, without the output and without side outputs."""
    words = list(link.arguments)
    for file, path in zip(link.inputs, files, strict=True):
        word = words[file.position]
        # A stranger's corpus chooses the names of its files.
        if path.startswith(("-", "@")) or ("," in path and word != file.named):
            raise CorpusError(f"the link of {link.output}: expected the path of a file, got {path!r}; rename the file")
        parts = word.split(",") if word != file.named else [word]
        for position, part in enumerate(parts):
            if part == file.named or part.endswith(f"={file.named}"):
                parts[position] = f"{part.removesuffix(file.named)}{path}"
                break
        words[file.position] = ",".join(parts)
    if link.output_position is not None:
        first = link.output_position - (link.arguments[link.output_position] == link.output_named)
        words[first : link.output_position + 1] = []
    arguments: list[str] = []
    for word in drop_options(words, ("-Wp,", "-save-temps="), _DROPPED_WITH_VALUE):
        if word.startswith("-Wl,"):
            parts = [part for part in word.split(",")[1:] if not part.startswith(_DROPPED_TO_LINKER) or "=" not in part]
            arguments += [",".join(["-Wl", *parts])] if parts else []
        elif word not in _DROPPED:
            arguments.append(word)
    return arguments


def _linked(path: Path, scratch: Path, name: str) -> Path:
    """Return a link to a file under a name whose suffix linkers know, relative to their working directory."""
    link = scratch / name
    if link.is_symlink() and link.readlink() != path.absolute():
        link = Path(tempfile.mkdtemp(dir=scratch)) / name
    if not link.is_symlink():
        link.symlink_to(path.absolute())
    return link.relative_to(scratch)
