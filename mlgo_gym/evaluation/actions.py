"""The actions of an episode in one short text, so that a line of results says how to come to it again."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.errors import MlgoError

LARGEST = 1 << 26
"""The most bytes of the actions of an episode; no compile asks so often."""


def pack_actions(actions: Sequence[Any], space: gym.Space[Any]) -> str:
    """Return actions as text: base64 of their compressed little-endian bytes.

    Args:
        actions: elements of the action space, in order.
        space: the action space, Discrete or Box.
    """
    dtype = _dtype(space)
    return base64.b64encode(zlib.compress(np.asarray(actions, dtype).tobytes())).decode()


def unpack_actions(text: str, space: gym.Space[Any]) -> list[Any]:
    """Return the actions in what `pack_actions()` made for the same action space.

    Raises:
        MlgoError: it is of another form.
    """
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), LARGEST)
        if not packed.eof:
            raise ValueError(f"they are cut off, or unpack to more than {LARGEST:,} bytes")
        actions = np.frombuffer(data, _dtype(space)).reshape(-1, *(space.shape or ()))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise MlgoError(
            f"packed actions of {space} were wanted, found another form: {error}; evaluate again"
        ) from error
    return actions.tolist() if isinstance(space, gym.spaces.Discrete) else list(actions)


def _dtype(space: gym.Space[Any]) -> np.dtype[Any]:
    return np.dtype("<i2") if isinstance(space, gym.spaces.Discrete) else np.dtype("<f4")
