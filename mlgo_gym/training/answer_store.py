"""A folder of the best answers: a file of tensors for each finished module that has some, and a line about each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.storage.module_folder import FolderKind, ModuleFolder
from mlgo_gym.storage.tensors import format_tensors, read_tensors
from mlgo_gym.training.clone import Answers

ANSWERS = FolderKind("answers", "best.json", ".safetensors", 1, "mlgo-gym train best-of")
"""What such a folder holds."""


class AnswerStore(ModuleFolder):
    """Adds the answers of modules to a folder.

    Args:
        folder: the folder; made if need be.
        header: what the answers depend on, JSON-able.

    Raises:
        MlgoError: the folder has answers that depend on something else, or none that can be read, or another process
            adds to it now.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        super().__init__(ANSWERS, folder, header)

    def add_answers(self, line: Mapping[str, Any], answers: Answers | None) -> None:
        """Keep the answers of a module, and the line about it, which has its name as `module`."""
        if answers is None:
            self.add(line)
            return
        tensors: dict[str, npt.NDArray[Any]] = {
            "observations": answers.observations,
            "answers": answers.answers.astype(np.int64),
            "legal": answers.legal.astype(np.uint8),
        }
        self.add(line, format_tensors(tensors, {}))

    def read(self, module: str) -> Answers:
        """Return the answers of a finished module.

        Raises:
            PolicyError: its file is gone, or damaged.
        """
        tensors, _ = read_tensors(self.part(module))
        return Answers(tensors["observations"], tensors["answers"], tensors["legal"].astype(np.bool_))
