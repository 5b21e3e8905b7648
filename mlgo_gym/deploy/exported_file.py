"""Where an export goes: it appears whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Say what was to be written where the block cannot write it.

    Raises:
        MlgoError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise MlgoError(f"the export was to go to {output}, and cannot: {error}; choose another place") from error


def write_export(output: Path, data: bytes) -> None:
    """Write an exported file.

    Raises:
        MlgoError: it cannot be written.
    """
    with writing(output):
        write_atomically(output, data)
