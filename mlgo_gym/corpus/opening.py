"""From what a user writes to a corpus: builtin programs, datasets, packages, random programs, folders and files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

from mlgo_gym.corpus.builtin import builtin_corpus
from mlgo_gym.corpus.catalogue import dataset_names
from mlgo_gym.corpus.corpus import DEFAULT_LEVEL, Corpus, join_corpora
from mlgo_gym.corpus.csmith import csmith_corpus
from mlgo_gym.corpus.dataset import fetch_dataset, incomplete
from mlgo_gym.corpus.description import DESCRIPTION_FILE
from mlgo_gym.corpus.folder import FolderModules
from mlgo_gym.corpus.modules import SingleModule
from mlgo_gym.corpus.sampling import PARTS, Part, is_part
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.llvm.toolchain import Toolchain

CATALOGUE = "catalogue"
"""The name of all datasets of the catalogue together."""

_DATASET = "dataset:"
"""What makes sure that a name is that of a dataset."""

_PART = re.compile(rf"(.+):({'|'.join(PARTS)})(-projects)?", re.DOTALL)


def open_corpus(
    spec: str | os.PathLike[str] | Corpus,
    *,
    toolchain: Toolchain,
    flags: Sequence[str] | None = None,
    trust: bool = False,
) -> Corpus:
    """Return the corpus that a specification names.

    Args:
        spec: `builtin`; a dataset of the catalogue, fetched on first use, or `catalogue`, all of them;
            `pypi:NAME==VERSION`, the C and C++ of a source distribution; `csmith:SEED` or `csmith:SEED:COUNT`, random
            programs; the path of a folder with `corpus_description.json`, of any folder of `.bc` files, or of one
            `.bc` file. All but paths take an optimisation level, as in `zstd@Os`. All take a part of `Corpus.split()`
            at the end, as in `zstd@Os:train`, or of the split of whole projects, as in `catalogue:test-projects`.
            Several of them with commas between are joined, with `CORPUS/` before the module names, whatever the part.
            What has a slash or ends in `.bc` and exists is always a path. A corpus is returned as it is.
        toolchain: the clang that makes the bitcode, where a corpus is not bitcode already.
        flags: for modules without recorded flags. Without them such modules have None.
        trust: whether recorded flags are run whatever they are; else only those that shape code, see SECURITY.md.

    Raises:
        CorpusError: nothing goes by that name, or it cannot be used, or the part of it has no module.
    """
    if isinstance(spec, Corpus):
        return spec.trusted() if trust else spec
    corpus = _open(spec, toolchain, flags)
    if trust:
        corpus = corpus.trusted()
    if not len(corpus):
        raise CorpusError(f"{os.fspath(spec)} has no module: that part of the split is empty; choose a larger corpus")
    return corpus


def _open(spec: str | os.PathLike[str], toolchain: Toolchain, flags: Sequence[str] | None) -> Corpus:
    text = os.fspath(spec)
    path = Path(text).expanduser()
    if not isinstance(spec, str) or ((os.sep in text or text.endswith(".bc")) and path.exists()):
        return _open_path(path, flags)
    if "," in text:
        return join_corpora([_open(part.strip(), toolchain, flags) for part in text.split(",") if part])
    divided = _PART.fullmatch(text)
    if divided is not None:
        whole, part, projects = divided.groups(default="")
        corpus = _open_part(whole, cast("Part", part), "project" if projects else "module", toolchain, flags)
        return corpus.named(f"{corpus.name}:{part}{projects}")
    name, _, level = text.partition("@")
    if name == CATALOGUE:
        return _open_catalogue(dataset_names(), level, toolchain).named(text)
    if name == "builtin":
        return builtin_corpus(toolchain, optimize=level or DEFAULT_LEVEL)
    if name.startswith("csmith:"):
        return csmith_corpus(name.removeprefix("csmith:"), toolchain, optimize=level or DEFAULT_LEVEL)

    if name.startswith(("pypi:", _DATASET)) or name in dataset_names():
        if name in dataset_names() and (path / DESCRIPTION_FILE).exists():
            warnings.warn(
                f"{name} is the dataset, and there is a corpus of that name in this folder too: write ./{name} for "
                f"that, or {_DATASET}{name} for the dataset",
                CorpusWarning,
                stacklevel=4,
            )
        name = name.removeprefix(_DATASET)
        folder = fetch_dataset(name, optimize=level or DEFAULT_LEVEL, toolchain=toolchain)
        _warn_if_incomplete(folder)
        project = name.removeprefix("pypi:").partition("==")[0]
        return Corpus(text, FolderModules(folder, flags=flags), path=folder, origin=partial(_of_project, project))
    if text and path.exists():
        return _open_path(path, flags)
    raise CorpusError(
        f"there is no corpus {text!r}; give a folder with corpus_description.json, a folder of .bc files, a .bc file, "
        f"pypi:NAME==VERSION, csmith:SEED, or one of: {', '.join(['builtin', CATALOGUE, *dataset_names()])}; a level "
        f"such as @Os may follow the name, and one of {', '.join(f':{part}' for part in PARTS)} that"
    )


def _of_project(project: str, name: str) -> tuple[str, str]:
    return project, name


def _open_part(
    whole: str,
    part: Part,
    by: Literal["module", "project"],
    toolchain: Toolchain,
    flags: Sequence[str] | None,
) -> Corpus:
    name, _, level = whole.partition("@")
    if name == CATALOGUE and by == "project":
        # The others need not be fetched.
        names = [name for name in dataset_names() if is_part(name, part)]
        return _open_catalogue(names, level, toolchain).named(whole)
    return _open(whole, toolchain, flags).split(part, by=by)


def _open_catalogue(names: Sequence[str], level: str, toolchain: Toolchain) -> Corpus:
    return join_corpora([_open(f"{name}@{level}" if level else name, toolchain, None) for name in names])


def _warn_if_incomplete(folder: Path) -> None:
    lacks = incomplete(folder)
    if lacks:
        warnings.warn(
            f"{folder}: this dataset lacks {len(lacks)} of what it is to hold, {lacks[0]} first; mlgo-gym corpus fetch "
            "makes it again",
            CorpusWarning,
            stacklevel=5,
        )


def _open_path(path: Path, flags: Sequence[str] | None) -> Corpus:
    if path.is_dir():
        _warn_if_incomplete(path)
        folder = FolderModules(path, flags=flags)
        missing, looked_at = folder.missing_flags()
        if 0 < missing < looked_at:
            warnings.warn(
                f"{path}: {missing} of the first {looked_at} modules have no recorded flags, and are compiled at the "
                "level that the attributes of their functions show; `mlgo-gym corpus verify` names them, and flags= "
                "gives them",
                CorpusWarning,
                stacklevel=4,
            )
        project = folder.project
        origin = None if project is None else partial(_of_project, project)
        return Corpus(path.resolve().name, folder, path=path, origin=origin)
    if not path.is_file() or path.suffix != ".bc":
        raise CorpusError(f"{path}: a corpus folder or a .bc file was wanted, found neither; check the path")
    single = SingleModule(path, None if flags is None else tuple(flags))
    return Corpus(single.names[0], single, path=path)
