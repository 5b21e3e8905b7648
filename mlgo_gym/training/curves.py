"""Training curves: written for TensorBoard if that is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Curve = Callable[[str, float, int], None]
"""Takes the name of a curve, a value, and the step."""


def silent(*_: object) -> None:
    """Ignore what a training reports."""


@contextmanager
def curves(folder: Path) -> Iterator[Curve]:
    """Give a function that adds a point to a curve; without TensorBoard it does nothing.

    Args:
        folder: where TensorBoard's files go.
    """
    try:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder))
    except ImportError:
        yield silent
        return
    try:
        yield writer.add_scalar
    finally:
        writer.close()
