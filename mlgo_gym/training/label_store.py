"""A folder of labels: a Parquet file for each finished module that has some, and a line about each."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.policies.call_features import CALL_FEATURES, SHARE
from mlgo_gym.storage.module_folder import FolderKind, ModuleFolder
from mlgo_gym.training.label_module import ModuleLabels

SUFFIX = ".parquet"
"""What the name of a file of labels ends in."""

LABELS = FolderKind("labels", "labels.json", SUFFIX, 1, "mlgo-gym label")
"""What such a folder holds."""

FACTS = (
    *("answer", "bytes", "text", "decisions", "module", "digest"),
    *("project", "context", "visit", "position", "callee"),
)
"""The columns of labels that are not features."""


def _parquet() -> tuple[Any, Any]:
    feature, extra = "labels in Parquet files", "training"
    return library("pyarrow", feature, extra), library("pyarrow.parquet", feature, extra)


class LabelStore(ModuleFolder):
    """Adds the labels of modules to a folder.

    Args:
        folder: the folder; made if need be.
        header: what the labels depend on, JSON-able.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: the folder has labels that depend on something else, or none that can be read, or another process
            adds to it now.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._arrow, self._parquet = _parquet()
        super().__init__(LABELS, folder, header)

    def add_labels(
        self, module: str, project: str, labels: ModuleLabels, dtype: np.dtype[Any], digest: str
    ) -> dict[str, Any]:
        """Write the labels of a module, and return the line about it.

        Args:
            module: its name.
            project: its project.
            labels: what was measured.
            dtype: that of an observation, as the compiler's header has it.
            digest: what tells the module, as `training_digest()` has it.
        """
        part = None
        if labels.labels:
            buffer = io.BytesIO()
            self._parquet.write_table(self._table(labels, dtype, (module, digest, project)), buffer, compression="zstd")
            part = buffer.getvalue()
        counts = {name: getattr(labels, name) for name in ModuleLabels.__slots__ if name != "labels"}
        line = {"module": module, "project": project, "labels": len(labels.labels), **counts}
        self.add(line, part)
        return line

    def fail(self, module: str, project: str, error: str) -> dict[str, Any]:
        """Note that a module has no labels, and return the line about it."""
        line = {"module": module, "project": project, "labels": 0, "error": error}
        self.add(line)
        return line

    def _table(self, labels: ModuleLabels, dtype: np.dtype[Any], names: Sequence[str]) -> Any:
        decisions = [label.decision for label in labels.labels]
        records = np.frombuffer(b"".join(decision.payload for decision in decisions), dtype)
        columns: dict[str, Any] = {}
        for name in dtype.names or ():
            values = records[name].reshape(len(records), -1)
            # A histogram is a list in each row, everything else a number.
            columns[name] = self._arrow.array(values[:, 0].copy() if values.shape[1] == 1 else values.tolist())
        if labels.labels[0].calls:
            rows = np.array([label.calls for label in labels.labels], np.float32)
            for name, values in zip(CALL_FEATURES, rows.T, strict=True):
                columns[name] = self._arrow.array(values if name == SHARE else values.astype(np.int32))
        size = len(decisions)
        facts: Sequence[Any] = (
            np.array([decision.answer for decision in decisions], np.int8),
            np.array([label.bytes for label in labels.labels], np.int64),
            np.full(size, labels.text, np.int64),
            np.full(size, labels.decisions, np.int32),
            *([name] * size for name in names),
            [_text(decision.component) for decision in decisions],
            np.array([decision.visit for decision in decisions], np.int32),
            np.array([decision.position for decision in decisions], np.int32),
            [_text(decision.callee) for decision in decisions],
        )
        columns.update(zip(FACTS, map(self._arrow.array, facts), strict=True))
        return self._arrow.table(columns)


def _text(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels that were read.

    Attributes:
        features: the names of the columns of `observations`; element i of a histogram is `NAME[i]`.
        observations: float64 of shape (labels, features); integers beyond 2**53 are rounded.
        answers: what the policy had answered, int8 of shape (labels,).
        bytes: inlined minus not inlined, int64 of shape (labels,).
        text: the bytes of the module under the policy, int64 of shape (labels,).
        share: the decisions of the module for each of its labels, float64 of shape (labels,).
        modules: the module of each, with the number of its folder, of shape (labels,).
        digests: what tells the module of each, as `training_digest()` has it, of shape (labels,); empty where that is
            not known.
        projects: the project of each, of shape (labels,).
    """

    features: tuple[str, ...]
    observations: npt.NDArray[np.float64]
    answers: npt.NDArray[np.int8]
    bytes: npt.NDArray[np.int64]
    text: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]
    modules: npt.NDArray[np.str_]
    digests: npt.NDArray[np.str_]
    projects: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.bytes)


def read_labels(folders: Sequence[Path]) -> Labels:
    """Return the labels of all finished modules of some folders.

    Args:
        folders: folders of labels; or Parquet files as those of docs/results/labels, which have the columns of a
            folder's files, `round`, and `dataset` for the project; `digest` may be missing.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: a folder has no labels, or others than the first in environment or compiler.
    """
    arrow, parquet = _parquet()
    headers = [LABELS.read_header(folder) for folder in folders if folder.suffix != SUFFIX]
    for folder, header in zip((each for each in folders if each.suffix != SUFFIX), headers, strict=True):
        for name in ("environment", "clang"):
            if header.get(name) != headers[0].get(name):
                raise MlgoError(
                    f"labels of one {name} were wanted, found {headers[0].get(name)} in {folders[0]} and "
                    f"{header.get(name)} in {folder}; train on one of them"
                )
    names: tuple[str, ...] = ()
    parts: list[tuple[npt.NDArray[np.float64], dict[str, Any]]] = []
    for number, folder in enumerate(folders):
        if folder.suffix == SUFFIX:
            found, together = _read_file(folder, number)
            names = _same(names, found, folder)
            parts.append(together)
            continue
        # Several processes finish modules in any order; what is learned must not depend on it.
        for line in sorted(LABELS.lines(folder), key=lambda line: str(line["module"])):
            if not line["labels"]:
                continue
            path = LABELS.part(folder, line["module"])
            try:
                table = parquet.read_table(path)
            except (OSError, arrow.ArrowException) as error:
                raise MlgoError(f"{path} was to hold labels, and cannot be read: {error}; make them again") from error
            found, matrix = _matrix(table)
            names = _same(names, found, path)
            facts = {name: table.column(name).to_numpy() for name in ("answer", "bytes", "text")}
            count = len(matrix)
            facts["share"] = np.full(count, line["decisions"] / count)
            facts["module"] = np.full(count, f"{number}:{line['module']}")
            facts["digest"] = _digests(table)
            facts["project"] = np.full(count, line["project"])
            parts.append((matrix, facts))
    if not parts:
        raise MlgoError(f"{', '.join(map(str, folders))} have no label yet; let mlgo-gym label finish a module first")
    observations = np.concatenate([matrix for matrix, _ in parts])
    order = ("answer", "bytes", "text", "share", "module", "digest", "project")
    return Labels(names, observations, *(np.concatenate([facts[name] for _, facts in parts]) for name in order))


def _same(names: tuple[str, ...], found: tuple[str, ...], path: Path) -> tuple[str, ...]:
    if names and found != names:
        more, fewer = ([name for name in one if name not in other] for one, other in ((found, names), (names, found)))
        said = [f"{word} {', '.join(each)}" for word, each in (("has", more), ("lacks", fewer)) if each]
        raise MlgoError(
            f"labels of the same features were wanted, and {path} {' and '.join(said) or 'has another order'}, unlike "
            "those before: train on one kind (--calls and --environment of mlgo-gym label decide it)"
        )
    return found


def _read_file(path: Path, number: int) -> tuple[tuple[str, ...], tuple[npt.NDArray[np.float64], dict[str, Any]]]:
    """Return the features and the labels of a Parquet file, of all rounds and modules in it."""
    arrow, parquet = _parquet()
    try:
        table = parquet.read_table(path)
        facts = {name: table.column(name).to_numpy() for name in ("answer", "bytes", "text")}
        rounds, modules, projects, decisions = (
            table.column(name).to_numpy(zero_copy_only=False) for name in ("round", "module", "dataset", "decisions")
        )
    except (OSError, KeyError, arrow.ArrowException) as error:
        raise MlgoError(f"{path} was to be a file of labels, and cannot be read as one: {error}") from error
    keys = np.array(
        [f"{number}.{each}:{project}/{module}" for each, project, module in zip(rounds, projects, modules, strict=True)]
    )
    _, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    facts |= {"share": decisions / count[place], "module": keys, "project": projects.astype(str)}
    facts["digest"] = _digests(table)
    found, matrix = _matrix(table.drop_columns(["round", "dataset"]))
    return found, (matrix, facts)


def _digests(table: Any) -> npt.NDArray[np.str_]:
    if "digest" not in table.column_names:
        return np.full(table.num_rows, "")
    return np.array(table.column("digest").to_pylist(), np.str_)


def _matrix(table: Any) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
    names: list[str] = []
    columns = []
    for name in table.column_names:
        if name in FACTS:
            continue
        values = np.array(table.column(name).to_pylist(), np.float64).reshape(table.num_rows, -1)
        names += [name] if values.shape[1] == 1 else [f"{name}[{number}]" for number in range(values.shape[1])]
        columns.append(values)
    return tuple(names), np.concatenate(columns, axis=1)
