"""Libraries that come with an extra alone: imported where they are needed, and their absence named."""

from __future__ import annotations

import importlib
from typing import Any

from mlgo_gym.errors import MissingExtraError


def library(name: str, feature: str, extra: str) -> Any:
    """Return a module of a library that need not be there.

    Args:
        name: the module, such as `"pyarrow.parquet"`.
        feature: what needs it, as the beginning of a sentence.
        extra: the extra that brings it.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
