"""Import of optional libraries, with an error that names the extra."""

from __future__ import annotations

import importlib
from typing import Any

from mlgo_gym.errors import MissingExtraError


def library(name: str, feature: str, extra: str) -> Any:
    """Return a module of an optional library; `feature` is what needs it, as the start of a sentence.

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
