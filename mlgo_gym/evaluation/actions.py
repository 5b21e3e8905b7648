"""The actions of an episode packed into one short text, from which the episode can be reproduced."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.errors import MlgoError

MAX_BYTES = 1 << 26
"""Maximum size of the actions of an episode; far above the decisions of any compile."""


def pack_actions(actions: Sequence[Any], space: gym.Space[Any]) -> str:
    """Return actions of a Discrete or Box space as text: base64 of their compressed little-endian bytes."""
    return base64.b64encode(zlib.compress(np.asarray(actions, _dtype(space)).tobytes())).decode()


def unpack_actions(text: str, space: gym.Space[Any]) -> list[Any]:
    """Return the actions that `pack_actions()` packed for the same action space.

    Raises:
        MlgoError: The text is no packed actions of this space.
    """
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if not packed.eof:
            raise ValueError(f"truncated, or more than {MAX_BYTES:,} bytes")
        actions = np.frombuffer(data, _dtype(space)).reshape(-1, *(space.shape or ()))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise MlgoError(f"expected packed actions of {space}, got another form ({error}); evaluate again") from error
    return actions.tolist() if isinstance(space, gym.spaces.Discrete) else list(actions)


def _dtype(space: gym.Space[Any]) -> np.dtype[Any]:
    return np.dtype("<i2" if isinstance(space, gym.spaces.Discrete) else "<f4")
