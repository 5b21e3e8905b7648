"""Labels of inlining decisions: the cost of the other action, in arrays and in Parquet files.

A folder of labels has one Parquet file for each module with labels, a line about each finished module, and a header. A
module is finished once its line is written; a kill before that repeats the module. Features are columns by name; a
tensor is a list in each row. The other columns are `FACTS`.
"""

import io
import json
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_clang.files import read_untrusted
from mlgo_clang.link_facts import FEATURES as LINK_FEATURES
from mlgo_gym.cache import key_of, parse_json, write_atomically
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.corpus.parts import HELD_OUT, Part, is_project_part
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.identity import refuse_other_identity
from mlgo_gym.storage.json_files import JsonLines, read_json_lines, remove_unfinished

SUFFIX = ".parquet"
_HEADER = "labels.json"
_MODULES = "modules.jsonl"
_FORMAT = 1

FACTS = (
    *("answer", "bytes", "text", "decisions", "module", "digest"),
    *("project", "context", "visit", "position", "callee", "nodes", "edges", "edge_links"),
)
"""The columns that are not features."""

_BYTES_EXPONENT = 0.8
_TEXT_EXPONENT = 0.5
_MAX_SHARE = 40.0
_MAX_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of decisions around a policy.

    Attributes:
        features: Names of the columns of `observations`; element i of a tensor is `NAME[i]`.
        observations: float32 or float64 of shape (labels, features); integers above 2**53 are rounded.
        answers: Actions of the policy, int64 of shape (labels,).
        bytes: Cost of the module with the call inlined minus that without, float64 of shape (labels,), in the unit of
            the metric.
        text: Cost of the module under the policy, of shape (labels,).
        share: Decisions of the module per label of it, float64 of shape (labels,).
        groups: Number of the module of each label, int64 of shape (labels,); each round counts separately.
        modules: Project and name there of the module of each label, joined by a slash; texts as objects, since one long
            name would widen an array of texts for all.
        digests: `Module.source_digest()` of the module of each label; empty if unknown.
    """

    features: tuple[str, ...]
    observations: npt.NDArray[Any]
    answers: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.float64]
    text: npt.NDArray[Any]
    share: npt.NDArray[np.float64]
    groups: npt.NDArray[np.int64]
    modules: npt.NDArray[np.object_]
    digests: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Weight of each label of inlining, float64 of shape (labels,), at most 20; the mean of those above 0 is 1.

        A label also represents the unlabelled decisions of its module. Bytes count less in a large module, because the
        objective is the relative change of each module.
        """
        share = np.minimum(self.share, _MAX_SHARE) ** 0.5
        weights = np.asarray(np.abs(self.bytes) ** _BYTES_EXPONENT * share / self.text**_TEXT_EXPONENT, np.float64)
        mean = weights.sum() / max(np.count_nonzero(weights), 1)
        return weights if not mean else np.minimum(weights / mean, _MAX_WEIGHT)

    @property
    def trained_on(self) -> dict[str, str] | None:
        """Names of the modules by digest; None if some digests are unknown."""
        if not all(self.digests.tolist()):
            return None
        pairs = sorted(set(zip(self.digests.tolist(), self.modules.tolist(), strict=True)))
        return dict(reversed(pairs))

    def in_part(self, part: Part) -> npt.NDArray[np.bool_]:
        """Return which labels are of a part of a split, without copies of modules that are held out from it."""
        names, inverse = np.unique(self.modules, return_inverse=True)
        origins = [(project, name) for project, _, name in (name.partition("/") for name in names.tolist())]

        def of(part: Part) -> npt.NDArray[np.bool_]:
            return np.array([is_project_part(*origin, part) for origin in origins], np.bool_)[inverse]

        held_out = {digest for held in HELD_OUT.get(part, ()) for digest in self.digests[of(held)].tolist() if digest}
        copies = np.array([digest in held_out for digest in self.digests.tolist()], np.bool_)
        rows: npt.NDArray[np.bool_] = of(part) & ~copies
        return rows

    def select(self, rows: Any) -> "Labels":
        """Return the labels of an index array or a mask."""
        return Labels(self.features, *(getattr(self, field.name)[rows] for field in fields(self)[1:]))

    def select_features(self, names: Sequence[str]) -> "Labels":
        """Return the labels with some of the features, in the given order."""
        columns = [self.features.index(name) for name in names]
        return replace(self, features=tuple(names), observations=self.observations[:, columns])


def joined(parts: Sequence[Labels]) -> Labels:
    """Return the labels of several rounds in order, or raise an MlgoError if their features differ."""
    first = parts[0]
    offsets = np.cumsum([0, *(int(part.groups.max(initial=-1)) + 1 for part in parts)])
    groups = np.concatenate([part.groups + offset for part, offset in zip(parts, offsets, strict=False)])
    for part in parts[1:]:
        _check_features(first.features, part.features, "a later round")
    columns = (
        groups if field.name == "groups" else np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(first)[1:]
    )
    return Labels(first.features, *columns)


class ModuleLabels(NamedTuple):
    """Columns of a module's labels by name, as arrays or lists, empty without labels; and JSON-able counts."""

    columns: dict[str, Any]
    counts: dict[str, Any]


class LabelStore:
    """Adds the labels of modules to a folder; the header is everything that they depend on, JSON-able.

    Raises `MlgoError` if the folder has another header or a damaged one, or another process writes to it.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._arrow, self._parquet = _parquet()
        self._folder = folder
        self._lines = JsonLines(folder / _MODULES)
        self.close = self._lines.close
        try:
            text = json.dumps({"format": _FORMAT, **header}, indent=1) + "\n"
            remove_unfinished(folder)
            if self._lines.is_empty:
                write_atomically(folder / _HEADER, text.encode())
            refuse_other_identity(folder, read_header(folder), json.loads(text))
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The last line about each module, by module; a line with an `error` is of a module to label again."""
        return _read_lines(self._folder)

    def add_labels(
        self, module: str, origin: tuple[str, str], digest: str, labels: ModuleLabels | str, identity: str = ""
    ) -> dict[str, Any]:
        """Write the labels of a module with an identity, or the reason why it has none; return the line about it.

        The origin is the module's project and its name there.
        """
        project, local = origin
        facts = {"module": module, "project": project, "identity": identity}
        if isinstance(labels, str):
            self._lines.append(line := {**facts, "labels": 0, "error": labels})
            return line
        size = len(labels.columns.get("answer", ()))
        if size:
            names = {"module": local, "digest": digest, "project": project}
            columns = {**labels.columns, **{name: [printable(value)] * size for name, value in names.items()}}
            # A list becomes a column of lists, an array a column of numbers.
            table = self._arrow.table({name: self._arrow.array(values) for name, values in columns.items()})
            buffer = io.BytesIO()
            self._parquet.write_table(table, buffer, compression="zstd")
            write_atomically(_part(self._folder, facts), buffer.getvalue())
        self._lines.append(line := {**facts, "labels": size, **labels.counts})
        return line


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header of a folder of labels; raise `MlgoError` if it has none of this format."""
    try:
        header = parse_json(read_untrusted(folder / _HEADER))
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise ValueError(f"a header of another format than {_FORMAT}")
    except (OSError, ValueError) as error:
        raise MlgoError(
            f"expected a folder of labels, got {str(folder)!r}: {error}; make one with `mlgo-gym label`"
        ) from error
    return header


def cpu_seconds() -> float:
    """Return the CPU time of all finished child processes, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def read_labels(paths: Sequence[Path]) -> Labels:
    """Return the labels of all finished modules.

    Args:
        paths: Folders of labels, or Parquet files such as the bundled ones, which have the columns of a folder's
            files, `round`, and `dataset` for the project; `digest` is optional.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: a path has no labels, or the environments, the compilers or the features of two paths differ.
    """
    folders = [path for path in paths if path.suffix != SUFFIX]
    headers = [read_header(folder) for folder in folders]
    for folder, header in zip(folders, headers, strict=True):
        for name, value, first in (
            *((name, header.get(name), headers[0].get(name)) for name in ("environment", "clang")),
            ("metric", _metric(header), _metric(headers[0])),
        ):
            if value != first:
                raise MlgoError(
                    f"expected labels of one {name}, got {first!r} in {folders[0]} and {value!r} in {folder}; train on "
                    "one of them"
                )
    parts: list[Labels] = []
    for source, table in label_tables(paths):
        part = _of_table(source, table)
        if parts:
            _check_features(parts[0].features, part.features, str(source))
        parts.append(part)
    return joined(parts)


def label_tables(paths: Sequence[Path]) -> list[tuple[Path, Any]]:
    """Return the files of labels with their tables, in order; those of a folder are of one module each."""
    tables = []
    for path in paths:
        if path.suffix == SUFFIX:
            tables.append((path, _table(path, "name another file")))
            continue
        # Worker processes finish modules in any order; the network must not depend on it.
        parts = (_part(path, line) for _, line in sorted(_read_lines(path).items()) if line["labels"])
        tables += [(part, _table(part, "label the module once more")) for part in parts]
    if not tables:
        raise MlgoError(f"expected labels in {', '.join(map(str, paths))}, got none; label more modules")
    return tables


def _metric(header: Mapping[str, Any]) -> Any:
    """Return the metric of labels; None for the default of their environment."""
    arguments = header.get("arguments")
    return arguments.get("metric") if isinstance(arguments, Mapping) else None


def _parquet() -> tuple[Any, Any]:
    feature, extra = "labels in Parquet files", "training"
    return library("pyarrow", feature, extra), library("pyarrow.parquet", feature, extra)


def _check_features(expected: tuple[str, ...], actual: tuple[str, ...], source: str) -> None:
    if actual == expected:
        return
    pairs = (actual, expected), (expected, actual)
    more, fewer = ([name for name in one if name not in other] for one, other in pairs)
    differences = [f"{word} {', '.join(names)}" for word, names in (("additional", more), ("missing", fewer)) if names]
    raise MlgoError(
        f"expected labels of the same features, got {source} with {' and '.join(differences) or 'another order'}; "
        "train on labels of one kind (mlgo-gym label --set callee_features=true)"
    )


def printable(name: str) -> str:
    """Return a name as UTF-8 in one line: other bytes become replacement characters, and line breaks are escaped."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _read_lines(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["module"]: line for _, line in read_json_lines(folder / _MODULES)}


def _part(folder: Path, line: Mapping[str, Any]) -> Path:
    return folder / "parts" / f"{key_of(line['module'], line['identity'])[:24]}{SUFFIX}"


def _of_table(path: Path, table: Any) -> Labels:
    """Return the labels of a module, or of a file with the rounds of many modules."""
    columns = {name: table.column(name) for name in table.column_names}
    try:
        rounds = columns.pop("round").to_pylist() if "dataset" in columns else [0] * len(table)
        projects = columns.pop("dataset" if "dataset" in columns else "project").to_pylist()
        pairs = zip(projects, columns["module"].to_pylist(), strict=True)
        # Project and name of the module of each label.
        modules = np.array([sys.intern("/".join(pair)) for pair in pairs], np.object_)
        keys = [f"{round_index} {name}" for round_index, name in zip(rounds, modules, strict=True)]
        _, groups, count = np.unique(keys, return_inverse=True, return_counts=True)
        share = columns["decisions"].to_numpy(zero_copy_only=False) / count[groups]
        answers, text = columns["answer"].to_numpy().astype(np.int64), columns["text"].to_numpy()
        values = {name: _matrix(column) for name, column in columns.items() if name not in FACTS}
        size = columns["bytes"].to_numpy().astype(np.float64)
    except (KeyError, _parquet()[0].ArrowException) as error:
        raise MlgoError(f"expected a Parquet file of labels, got {path} with {error}; name another file") from error
    if uses_callee_features(values):
        # Labels without link facts may lack these features; -1 is unknown.
        for name in LINK_FEATURES:
            values.setdefault(name, np.full((len(table), 1), -1.0))
    features = [
        name if part.shape[1] == 1 else f"{name}[{index}]"
        for name, part in values.items()
        for index in range(part.shape[1])
    ]
    digests = columns["digest"].to_pylist() if "digest" in columns else [""] * len(answers)
    observations = np.concatenate(list(values.values()), axis=1)
    return Labels(
        tuple(features), observations, answers, size, text, share, groups, modules, np.array(digests, np.object_)
    )


def _table(path: Path, remedy: str) -> Any:
    arrow, parquet = _parquet()
    try:
        return parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise MlgoError(f"expected a Parquet file of labels in {path}, got {error}; {remedy}") from error


def _matrix(column: Any) -> npt.NDArray[np.float64]:
    """Return a column of numbers or of lists of one length as float64 of shape (rows, elements)."""
    values = column.combine_chunks()
    if hasattr(values.type, "value_type"):  # lists
        values = values.flatten()
    return np.asarray(values, np.float64).reshape(len(column), -1)
