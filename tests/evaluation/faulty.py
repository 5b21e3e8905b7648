"""Policies that end the process they are in."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Deadly:
    """Ends its process at the first decision of one module."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] == "calls":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0


class Stillborn:
    """Ends every process that it is loaded in, but for the one that the environment names."""

    def __init__(self) -> None:
        if os.environ["MLGO_TEST_PARENT"] != str(os.getpid()):
            os._exit(3)

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        return 0


class Endless:
    """Says by a file that it was asked about one module, and never answers."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] != "calls":
            return 0
        Path(os.environ["MLGO_TEST_ASKED"]).touch()
        signal.pause()
        return 0
