"""Corpora by name or path: specifications such as `zstd@Os@thumbv7em:train,builtin`, parsed, printed and opened."""

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from mlgo_gym.corpus.builtin import compile_builtin
from mlgo_gym.corpus.corpus import Corpus, join_corpora
from mlgo_gym.corpus.datasets.catalogue import PROGRAMS, RUST, dataset_names, fetched_names, rust_names
from mlgo_gym.corpus.datasets.dataset import fetch_dataset, missing_in_folder
from mlgo_gym.corpus.driver import BUILTIN_LEVELS, DEFAULT_LEVEL, DEFAULT_TARGET, LEVELS, check_level, find_target
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, FolderModules
from mlgo_gym.corpus.link_view import LinkView
from mlgo_gym.corpus.parts import BUILTIN, PARTS, Part, is_project_part
from mlgo_gym.errors import CorpusError, CorpusWarning, did_you_mean
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

CATALOGUE, BENCHMARK = "catalogue", "benchmark"
_DATASET, _PYPI = "dataset:", "pypi:"
_PART = re.compile(rf"(.+):({'|'.join(PARTS)})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """One corpus: a name with level, target and parts, or a path with parts; `str()` is the text that was parsed.

    Attributes:
        name: `builtin`, a dataset, `catalogue`, `rust`, `pypi:NAME==VERSION`; or a path.
        optimize: optimisation level of a named corpus; empty for `DEFAULT_LEVEL`.
        target: target of a named corpus, one of `TARGETS`; empty for `DEFAULT_TARGET`.
        parts: parts of `Corpus.split()`, the later ones within the earlier ones.
        is_path: whether the name is a path, whose modules may lack recorded flags.
    """

    name: str
    optimize: str = ""
    target: str = ""
    parts: tuple[Part, ...] = ()
    is_path: bool = False

    def __str__(self) -> str:
        return ":".join(["@".join(filter(None, (self.name, self.optimize, self.target))), *self.parts])

    @property
    def dataset(self) -> str | None:
        """The dataset or package that it names, as `fetch_dataset()` takes it, or None."""
        name = self.name.removeprefix(_DATASET)
        return None if self.is_path or not (name in fetched_names() or name.startswith(_PYPI)) else name

    @property
    def project(self) -> str | None:
        """The project of all its modules; None for a path, or for many projects."""
        many = self.name in (PROGRAMS, *rust_names())
        dataset = BUILTIN if self.name == BUILTIN and not self.is_path else self.dataset
        return None if dataset is None or many else dataset.removeprefix(_PYPI).partition("==")[0]

    @property
    def is_empty(self) -> bool:
        """Whether no module can be in its parts, since its project is in another part."""
        if self.project in (None, BUILTIN):
            return False
        return not all(is_project_part(self.project, "", part) for part in self.parts)

    @property
    def short(self) -> "CorpusSpec":
        """The same corpus, without a level and a target that are the default ones."""
        target = "" if self.target == DEFAULT_TARGET else self.target
        optimize = "" if self.optimize == DEFAULT_LEVEL and not target else self.optimize
        return replace(self, optimize=optimize, target=target)

    def at(self, optimize: str) -> "CorpusSpec":
        """Return a named corpus at another level; a path stays as it is."""
        return self if self.is_path else replace(self, optimize=optimize)


def parse_corpora(text: str) -> tuple[CorpusSpec, ...]:
    """Return the corpora of a text with one or several specifications, joined with commas, without opening any.

    Raises `CorpusError` if there is no such name, level, target or part, or no such path.
    """
    pieces = [text] if _is_path(text) else [piece.strip() for piece in text.split(",") if piece] or [text]
    return tuple(
        replace(spec, name=name)
        for spec in map(_parse, pieces)
        for name in ((BUILTIN, *dataset_names()) if spec.name == BENCHMARK and not spec.is_path else (spec.name,))
    )


def _parse(text: str, shown: str = "") -> CorpusSpec:
    """Return the specification in a text; errors show the text that contains it."""
    shown = shown or text
    if _is_path(text):
        return CorpusSpec(text, is_path=True)
    divided = _PART.fullmatch(text)
    if divided is not None:
        whole = _parse(divided[1], shown)
        return replace(whole, parts=(*whole.parts, cast("Part", divided[2])))
    name, optimize, target = [*text.split("@", 2), "", ""][:3]
    if _is_named(name):
        check_level(optimize or DEFAULT_LEVEL, BUILTIN_LEVELS if name in (BUILTIN, BENCHMARK) else LEVELS, shown)
        if target:
            find_target(target)
        return CorpusSpec(name, optimize or DEFAULT_LEVEL if target else optimize, target)
    if text and Path(text).expanduser().exists():
        return CorpusSpec(text, is_path=True)
    raise _unknown(shown)


def _is_path(text: str) -> bool:
    return (os.sep in text or text.endswith(".bc")) and Path(text).expanduser().exists()


def _names() -> list[str]:
    return [BUILTIN, BENCHMARK, CATALOGUE, RUST, *fetched_names()]


def _is_named(name: str) -> bool:
    return name in _names() or name.startswith(_PYPI) or name.removeprefix(_DATASET) in fetched_names()


def _unknown(text: str) -> CorpusError:
    name, colon, part = text.rpartition(":")
    if colon and _is_named(name.partition("@")[0]):
        return CorpusError(
            f"expected a part of {name!r} among {', '.join(PARTS)}, got {part!r}{did_you_mean(part, PARTS)}"
        )
    # The name decides, without the level, the target and the part.
    hint = did_you_mean((name or text).partition("@")[0], _names())
    return CorpusError(
        f"there is no corpus {text!r}{hint or '; name a dataset of `mlgo-gym corpus catalogue`, or a path'}"
    )


def open_corpus(
    spec: str | os.PathLike[str] | Corpus,
    *,
    toolchain: Toolchain | None = None,
    flags: Sequence[str] | None = None,
    trust_flags: bool = False,
    link_view: bool = False,
    link_facts: str | os.PathLike[str] | None = None,
) -> Corpus:
    """Return the corpus that a specification names.

    Args:
        spec: one of the following, or several joined with commas; modules are then named `CORPUS/NAME`.

            - `builtin`; a dataset of the catalogue, fetched on first use; or `catalogue`, all of them; or `programs`;
              or `benchmark`, which is `builtin` and all datasets.
            - `rust-FAMILY`, a family of Rust crates; or `rust`, all of them. They need cargo.
            - `pypi:NAME==VERSION`, the C and C++ of a source distribution.
            - the path of a folder with `corpus_description.json` or with any `.bc` files, or of one `.bc` file. A text
              with a slash or the suffix `.bc` that exists is always a path.
            - a `Corpus`, which is returned unchanged.

            Names take an optimisation level, as in `zstd@Os`, and then one of `TARGETS`, as in `zstd@Oz@thumbv7em`.
            All take a part of `Corpus.split()`, as in `catalogue@Os:train`. Datasets whose project is in another part
            are not fetched.
        toolchain: the clang that compiles sources to bitcode; by default `find_toolchain()`.
        flags: flags for modules without recorded ones; without them their `Module.flags` is None.
        trust_flags: whether recorded flags are run unchecked; otherwise only allowed ones, see SECURITY.md.
        link_view: whether functions have the linkages that they have after the link, see `LinkView`.
        link_facts: file of link facts for the view; by default those of plain objects, with the recorded links.

    Raises:
        CorpusError: there is no such corpus, it is broken, or the part has no module.
    """
    if isinstance(spec, Corpus):
        corpus = spec.trusted() if trust_flags else spec
        return LinkView(corpus, toolchain or find_toolchain(), link_facts).corpus if link_view else corpus
    specs = parse_corpora(spec) if isinstance(spec, str) else (CorpusSpec(os.fspath(spec), is_path=True),)
    specification = os.fspath(spec) if toolchain is None and flags is None and not (trust_flags or link_view) else None
    toolchain = toolchain or find_toolchain()
    members = [member for member in specs if not member.is_empty]
    opened = [_open(member, toolchain, flags) for member in members]
    if link_view:
        # An untrusted file may have chosen the flags.
        opened = [LinkView(corpus, toolchain, link_facts, trust_flags).corpus for corpus in opened]
    joins = len(specs) > 1 or not opened
    corpus = join_corpora(opened, [member.parts for member in members]) if joins else opened[0]
    if trust_flags:
        corpus = corpus.trusted()
    if not len(corpus):
        raise CorpusError(f"expected modules in {spec}, got none: {_place(specs)}; choose a larger corpus to split")
    corpus.specification = specification
    return corpus


def _open(spec: CorpusSpec, toolchain: Toolchain, flags: Sequence[str] | None) -> Corpus:
    if spec.parts:
        return _open_part(spec, toolchain, flags)
    if spec.is_path:
        return _open_path(Path(spec.name).expanduser(), flags)
    if spec.name in (CATALOGUE, RUST):
        return _join(spec, dataset_names() if spec.name == CATALOGUE else rust_names(), toolchain)
    optimize, target = spec.optimize or DEFAULT_LEVEL, spec.target or DEFAULT_TARGET
    if spec.name == BUILTIN:
        folder = compile_builtin(toolchain, optimize, target)
        return Corpus(str(spec.short), FolderModules(folder), path=folder, origin=BUILTIN)
    dataset = cast("str", spec.dataset)
    if dataset == spec.name and Path(dataset, DESCRIPTION_FILE).exists():
        warnings.warn(
            f"{dataset} names a dataset and a folder here; write ./{dataset} for the folder, or dataset:{dataset} for "
            "the dataset",
            CorpusWarning,
            stacklevel=4,
        )
    folder = fetch_dataset(dataset, optimize=optimize, target=target, toolchain=toolchain)
    _warn_if_incomplete(folder)
    # Each folder of the runnable programs is a project, and so is each crate.
    return Corpus(str(spec), FolderModules(folder, flags=flags), path=folder, origin=spec.project)


def _open_part(spec: CorpusSpec, toolchain: Toolchain, flags: Sequence[str] | None) -> Corpus:
    *earlier, last = spec.parts
    whole = replace(spec, parts=tuple(earlier))
    if spec.name == CATALOGUE and not earlier:
        # Datasets of the other parts are not fetched.
        corpus = _join(whole, [name for name in dataset_names() if is_project_part(name, "", last)], toolchain)
    else:
        corpus = _open(whole, toolchain, flags).split(last)
    return corpus.named(f"{corpus.name}:{last}")


def _place(specs: Sequence[CorpusSpec]) -> str:
    """Return the reason why specifications have no module."""
    projects = [spec.project for spec in specs if spec.is_empty]
    if not projects:
        return "its projects are in another part"
    (name, *_) = projects
    part = next(part for part in PARTS if part != "train" and is_project_part(str(name), "", part))
    return f"the project {name} is in the part {part}"


def _join(spec: CorpusSpec, names: Iterable[str], toolchain: Toolchain) -> Corpus:
    """Return the datasets of these names at the level and for the target of a specification."""
    return join_corpora([_open(replace(spec, name=name), toolchain, None) for name in names]).named(str(spec))


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
