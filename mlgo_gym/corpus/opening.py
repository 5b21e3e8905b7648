"""Corpora by name or path: builtin programs, datasets, packages, random programs, folders and files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from mlgo_gym.corpus.builtin import LEVELS, builtin_corpus, builtin_folder
from mlgo_gym.corpus.corpus import DEFAULT_LEVEL, Corpus, join_corpora
from mlgo_gym.corpus.csmith import csmith_corpus
from mlgo_gym.corpus.datasets.catalogue import PROGRAMS, RUST, dataset_names, fetched_names, find_dataset, rust_names
from mlgo_gym.corpus.datasets.dataset import (
    REPORT_FILE,
    dataset_folder,
    fetch_dataset,
    missing_in_folder,
    missing_parts,
    read_report,
)
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, FolderModules, read_description
from mlgo_gym.corpus.recording.recorder import LEVELS as DATASET_LEVELS
from mlgo_gym.corpus.splits import PARTS, Part, is_part
from mlgo_gym.corpus.targets import DEFAULT_TARGET, find_target
from mlgo_gym.errors import CorpusError, CorpusWarning, did_you_mean
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

CATALOGUE = "catalogue"
_DATASET = "dataset:"
_PART = re.compile(rf"(.+):({'|'.join(PARTS)})(-projects)?", re.DOTALL)


def open_corpus(
    spec: str | os.PathLike[str] | Corpus,
    *,
    toolchain: Toolchain | None = None,
    flags: Sequence[str] | None = None,
    trust_flags: bool = False,
) -> Corpus:
    """Return the corpus that a specification names.

    Args:
        spec: one of the following, or several joined with commas; modules are then named `CORPUS/NAME`.

            - `builtin`; a dataset of the catalogue, fetched on first use; or `catalogue`, all of them; or `programs`.
            - `rust-FAMILY`, a family of Rust crates; or `rust`, all of them. They need cargo.
            - `pypi:NAME==VERSION`, the C and C++ of a source distribution.
            - `csmith:SEED` or `csmith:SEED:COUNT`, random programs.
            - the path of a folder with `corpus_description.json` or with any `.bc` files, or of one `.bc` file. A text
              with a slash or the suffix `.bc` that exists is always a path.
            - a `Corpus`, which is returned unchanged.

            Names take an optimisation level, as in `zstd@Os`, and then one of `TARGETS`, as in `zstd@Oz@thumbv7em`.
            All take a part of `Corpus.split()`, as in `zstd@Os:train`, or of the split by project, as in
            `catalogue:test-projects`.
        toolchain: the clang that compiles sources to bitcode; by default `find_toolchain()`.
        flags: flags for modules without recorded ones; without them their `Module.flags` is None.
        trust_flags: whether recorded flags are run unchecked; otherwise only allowed ones, see SECURITY.md.

    Raises:
        CorpusError: there is no such corpus, it is broken, or the part has no module.
    """
    if isinstance(spec, Corpus):
        return spec.trusted() if trust_flags else spec
    corpus = _open(spec, toolchain or find_toolchain(), flags)
    if trust_flags:
        corpus = corpus.trusted()
    if not len(corpus):
        raise CorpusError(f"expected modules in {os.fspath(spec)}, got none; choose a larger corpus to split")
    return corpus


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus that has a name.

    Attributes:
        name: value for `corpus=`.
        summary: one-line description.
        licence: licence of the sources.
        folder: folder in the cache.
        modules: number of modules, or None before the first use.
        missing: modules and files that it lacks; the next use fetches them.
    """

    name: str
    summary: str
    licence: str
    folder: Path
    modules: int | None
    missing: tuple[str, ...] = ()


def named_corpora(toolchain: Toolchain, optimize: str) -> list[NamedCorpus]:
    """Return the builtin corpus and the datasets of the catalogue for a clang and an optimisation level."""
    entries = []
    if optimize in LEVELS:
        folder = builtin_folder(toolchain, optimize)
        modules = len(read_description(folder).modules) if (folder / DESCRIPTION_FILE).exists() else None
        entries.append(NamedCorpus("builtin", "programs of this package, C and C++", "Apache-2.0", folder, modules))
    for name in fetched_names():
        dataset = find_dataset(name)
        folder = dataset_folder(dataset, optimize, toolchain)
        modules = read_report(name, folder).modules if (folder / REPORT_FILE).exists() else None
        summary = f"{dataset.summary} ({dataset.archive.package} {dataset.archive.version})"
        missing = () if modules is None else tuple(missing_parts(dataset, folder))
        entries.append(NamedCorpus(name, summary, dataset.licence, folder, modules, missing))
    return entries


def _open(spec: str | os.PathLike[str], toolchain: Toolchain, flags: Sequence[str] | None) -> Corpus:
    text = os.fspath(spec)
    path = Path(text).expanduser()
    if not isinstance(spec, str) or _is_path(text):
        return _open_path(path, flags)
    if "," in text:
        return join_corpora([_open(part.strip(), toolchain, flags) for part in text.split(",") if part])
    divided = _PART.fullmatch(text)
    if divided is not None:
        base, part, projects = divided.groups(default="")
        corpus = _open_part(base, cast("Part", part), "project" if projects else "module", toolchain, flags)
        return corpus.named(f"{corpus.name}:{part}{projects}")
    name, suffix, optimize, target = _divide(text)
    if name == CATALOGUE:
        return _open_catalogue(dataset_names(), suffix, toolchain).named(text)
    if name == RUST:
        return _open_catalogue(rust_names(), suffix, toolchain).named(text)
    if name == "builtin":
        return builtin_corpus(toolchain, optimize=optimize, target=target)
    if name.startswith("csmith:"):
        return csmith_corpus(name.removeprefix("csmith:"), toolchain, optimize=optimize, target=target)
    if name.startswith(("pypi:", _DATASET)) or name in fetched_names():
        if name in fetched_names() and (path / DESCRIPTION_FILE).exists():
            warnings.warn(
                f"{name} names a dataset and a folder here; write ./{name} for the folder, or {_DATASET}{name} for the "
                "dataset",
                CorpusWarning,
                stacklevel=4,
            )
        name = name.removeprefix(_DATASET)
        folder = fetch_dataset(name, optimize=optimize, target=target, toolchain=toolchain)
        _warn_if_incomplete(folder)
        # Each folder of the runnable programs is a project, and so is each crate.
        project = None if name == PROGRAMS or name in rust_names() else name.removeprefix("pypi:").partition("==")[0]
        return Corpus(text, FolderModules(folder, flags=flags), path=folder, origin=project)
    if text and path.exists():
        return _open_path(path, flags)
    raise _unknown(text)


def check_corpus(spec: str) -> None:
    """Check that a specification names a corpus, without a fetch or a compile.

    Raises:
        CorpusError: there is no such name, level, target or part, or no such path.
    """
    for text in _parts(spec):
        if _is_path(text):
            continue
        divided = _PART.fullmatch(text)
        base = text if divided is None else divided[1]
        name, _, optimize, target = _divide(base)
        if not _is_named(name):
            if Path(base).expanduser().exists():
                continue
            raise _unknown(text)
        levels = LEVELS if name == "builtin" else DATASET_LEVELS
        if optimize not in levels:
            raise CorpusError(
                f"expected a level of {', '.join(levels)}, got {optimize!r} in {text!r}{did_you_mean(optimize, levels)}"
            )
        find_target(target)


def records_flags(spec: str) -> bool:
    """Return whether each module of a specification has recorded flags, because every corpus in it is a named one."""
    return all(not _is_path(text) and _is_named(_divide(_PART.sub(r"\1", text))[0]) for text in _parts(spec))


def _parts(spec: str) -> list[str]:
    return [spec] if _is_path(spec) else [part.strip() for part in spec.split(",") if part] or [spec]


def _is_path(text: str) -> bool:
    return (os.sep in text or text.endswith(".bc")) and Path(text).expanduser().exists()


def _is_named(name: str) -> bool:
    return name in _names() or name.startswith(("pypi:", "csmith:")) or name.removeprefix(_DATASET) in fetched_names()


def _names() -> list[str]:
    return ["builtin", CATALOGUE, RUST, *fetched_names()]


def _unknown(text: str) -> CorpusError:
    name, colon, part = text.rpartition(":")
    parts = [f"{part}{suffix}" for suffix in ("", "-projects") for part in PARTS]
    if colon and _is_named(_divide(name)[0]):
        return CorpusError(
            f"expected a part of {name!r} among {', '.join(parts)}, got {part!r}{did_you_mean(part, parts)}"
        )
    # The name decides, without the level, the target and the part.
    hint = did_you_mean(_divide(name or text)[0], _names())
    return CorpusError(f"there is no corpus {text!r}{hint or '; name a corpus of `mlgo-gym corpus list`, or a path'}")


def _open_part(
    base: str, part: Part, by: Literal["module", "project"], toolchain: Toolchain, flags: Sequence[str] | None
) -> Corpus:
    name, suffix, _, _ = _divide(base)
    if name == CATALOGUE and by == "project":
        # Datasets of the other parts are not fetched.
        names = [name for name in dataset_names() if is_part(name, part)]
        return _open_catalogue(names, suffix, toolchain).named(base)
    return _open(base, toolchain, flags).split(part, by=by)


def _divide(text: str) -> tuple[str, str, str, str]:
    """Return the name in a specification, all that follows it from the first `@` on, and the level and the target."""
    name, *rest = text.split("@", 2)
    optimize, target = [*rest, "", ""][:2]
    return name, text[len(name) :], optimize or DEFAULT_LEVEL, target or DEFAULT_TARGET


def _open_catalogue(names: Sequence[str], suffix: str, toolchain: Toolchain) -> Corpus:
    return join_corpora([_open(f"{name}{suffix}", toolchain, None) for name in names])


def _warn_if_incomplete(folder: Path) -> None:
    missing = missing_in_folder(folder)
    if missing:
        warnings.warn(
            f"{folder}: expected a complete dataset, got one that lacks {len(missing)} modules or files ({missing[0]} "
            "first); run mlgo-gym corpus fetch",
            CorpusWarning,
            stacklevel=5,
        )


def _open_path(path: Path, flags: Sequence[str] | None) -> Corpus:
    if path.is_dir():
        _warn_if_incomplete(path)
        folder = FolderModules(path, flags=flags)
        missing, checked = folder.missing_flags()
        if 0 < missing < checked:
            warnings.warn(
                f"{path}: {missing} of the first {checked} modules have no recorded flags, and are compiled at the "
                "level that the attributes of their functions show; `mlgo-gym corpus verify` lists them, and flags= "
                "sets them",
                CorpusWarning,
                stacklevel=4,
            )
        return Corpus(path.resolve().name, folder, path=path, origin=folder.project)
    if not path.is_file() or path.suffix != ".bc":
        raise CorpusError(f"{path}: expected the folder of a corpus or a .bc file; check the path")
    name = path.name.removesuffix(".bc")
    return Corpus(name, FolderModules(path.parent, flags=flags, names=[name]), path=path)
