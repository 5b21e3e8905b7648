"""A folder of the best answers: a header, a file for each finished module, and a line about each in `modules.jsonl`.

Files are only ever added. A module counts once its line is there; what a kill left behind is written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.header import check_same_kind
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.tensors import format_tensors, read_tensors
from mlgo_gym.training.clone import Answers

FORMAT = 1
_HEADER, _LINES, _PARTS = "best.json", "modules.jsonl", "parts"


class AnswerStore:
    """Adds the answers of modules to a folder.

    Args:
        folder: the folder; made if need be.
        header: what the answers depend on, JSON-able.

    Raises:
        MlgoError: the folder has answers that depend on something else, or another process adds to it now.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._folder = folder
        self._lines = JsonLines(folder / _LINES)
        try:
            wanted = json.loads(json.dumps({"format": FORMAT, **header}))
            path = folder / _HEADER
            if self._lines.is_empty:
                write_atomically(path, (json.dumps(wanted, indent=1) + "\n").encode())
            check_same_kind(folder, "answers", json.loads(path.read_bytes()), wanted)
        except BaseException:
            self._lines.close()
            raise

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The line about each module that is finished."""
        return {line["module"]: line for _, line in read_json_lines(self._folder / _LINES)}

    def add(self, line: Mapping[str, Any], answers: Answers | None) -> None:
        """Keep the answers of a module, and the line about it, which has its name as `module`."""
        if answers is not None:
            tensors: dict[str, npt.NDArray[Any]] = {
                "observations": answers.observations,
                "answers": answers.answers.astype(np.int64),
                "legal": answers.legal.astype(np.uint8),
            }
            write_atomically(self._path(line["module"]), format_tensors(tensors, {}))
        self._lines.append(dict(line))

    def read(self, module: str) -> Answers:
        """Return the answers of a finished module.

        Raises:
            PolicyError: its file is gone, or damaged.
        """
        tensors, _ = read_tensors(self._path(module))
        return Answers(tensors["observations"], tensors["answers"], tensors["legal"].astype(np.bool_))

    def _path(self, module: str) -> Path:
        digest = hashlib.sha256(module.encode(errors="surrogateescape")).hexdigest()[:24]
        return self._folder / _PARTS / f"{digest}.safetensors"

    def close(self) -> None:
        """Let others write. Idempotent."""
        self._lines.close()
