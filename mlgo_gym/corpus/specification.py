"""Specifications of corpora, such as `zstd@Os@thumbv7em:train,builtin`: parsed, checked, and printed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo_gym.corpus.corpus import PARTS
from mlgo_gym.corpus.datasets.catalogue import RUST, fetched_names
from mlgo_gym.corpus.targets import BUILTIN_LEVELS, DEFAULT_LEVEL, DEFAULT_TARGET, LEVELS, check_level, find_target
from mlgo_gym.errors import CorpusError, did_you_mean

BUILTIN, CATALOGUE, BENCHMARK = "builtin", "catalogue", "benchmark"
BENCHMARK_DATASETS = (
    "builtin", "zstd", "lz4", "brotli", "zopfli", "ujson", "hiredis", "httptools", "pyclipper", "box2d-py", "fasttext",
    "blosc", "pillow", "lupa", "pycryptodome", "pysimdjson", "jsonnet", "sentencepiece", "snappy", "lightgbm",
)  # fmt: skip
"""The corpora that `benchmark` stands for (docs/results/benchmark.md)."""

_DATASET, _PYPI = "dataset:", "pypi:"
_PART = re.compile(rf"(.+):((?:{'|'.join(PARTS)})(?:-projects)?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """One corpus: a name with level, target and parts, or a path with parts; `str()` is the text that was parsed.

    Attributes:
        name: `builtin`, a dataset, `catalogue`, `rust`, `pypi:NAME==VERSION`; or a path.
        optimize: optimisation level of a named corpus; empty for `DEFAULT_LEVEL`.
        target: target of a named corpus, one of `TARGETS`; empty for `DEFAULT_TARGET`.
        parts: parts of `Corpus.split()`, the later ones within the earlier ones; `train-projects` splits by project.
        is_path: whether the name is a path, whose modules may lack recorded flags.
    """

    name: str
    optimize: str = ""
    target: str = ""
    parts: tuple[str, ...] = ()
    is_path: bool = False

    def __str__(self) -> str:
        return ":".join(["@".join(filter(None, (self.name, self.optimize, self.target))), *self.parts])

    @property
    def dataset(self) -> str | None:
        """The dataset or package that it names, as `fetch_dataset()` takes it, or None."""
        name = self.name.removeprefix(_DATASET)
        return None if self.is_path or not (name in fetched_names() or name.startswith(_PYPI)) else name

    @property
    def short(self) -> CorpusSpec:
        """The same corpus, without a level and a target that are the default ones."""
        target = "" if self.target == DEFAULT_TARGET else self.target
        optimize = "" if self.optimize == DEFAULT_LEVEL and not target else self.optimize
        return replace(self, optimize=optimize, target=target)

    def at(self, optimize: str) -> CorpusSpec:
        """Return a named corpus at another level; a path stays as it is."""
        return self if self.is_path else replace(self, optimize=optimize)


def parse_corpora(text: str) -> tuple[CorpusSpec, ...]:
    """Return the corpora of a text with one or several specifications, joined with commas, without opening any.

    Raises:
        CorpusError: there is no such name, level, target or part, or no such path.
    """
    pieces = [text] if _is_path(text) else [piece.strip() for piece in text.split(",") if piece] or [text]
    return tuple(
        replace(spec, name=name)
        for spec in map(_parse, pieces)
        for name in (BENCHMARK_DATASETS if spec.name == BENCHMARK and not spec.is_path else (spec.name,))
    )


def _parse(text: str, shown: str = "") -> CorpusSpec:
    """Return the specification in a text; errors show the text that contains it."""
    shown = shown or text
    if _is_path(text):
        return CorpusSpec(text, is_path=True)
    divided = _PART.fullmatch(text)
    if divided is not None:
        whole = _parse(divided[1], shown)
        return replace(whole, parts=(*whole.parts, divided[2]))
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
    parts = [f"{part}{suffix}" for suffix in ("", "-projects") for part in PARTS]
    if colon and _is_named(name.partition("@")[0]):
        return CorpusError(
            f"expected a part of {name!r} among {', '.join(parts)}, got {part!r}{did_you_mean(part, parts)}"
        )
    # The name decides, without the level, the target and the part.
    hint = did_you_mean((name or text).partition("@")[0], _names())
    return CorpusError(f"there is no corpus {text!r}{hint or '; name a corpus of `mlgo-gym corpus list`, or a path'}")
