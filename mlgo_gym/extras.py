"""Import of optional libraries, with an error that names the extra."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MissingExtraError


def library(name: str, feature: str, extra: str) -> Any:
    """Return a module of an optional library that `feature` needs; raise `MissingExtraError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


def templates(folder: Path, feature: str, extra: str) -> Any:
    """Return Jinja's environment of a folder of templates; values are escaped, and a missing value is an error."""
    jinja2 = library("jinja2", feature, extra)
    settings = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.FileSystemLoader(folder), **settings)


def require_libraries(extra: str, *names: str) -> None:
    """Exit with one line that names the extra if the running script needs a library that is not installed."""
    if any(importlib.util.find_spec(name) is None for name in names):
        sys.exit(str(MissingExtraError(Path(sys.argv[0]).name, extra)))
