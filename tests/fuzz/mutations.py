"""Random changes of inputs, for readers without coverage."""

from __future__ import annotations

import random
from collections.abc import Sequence

_BYTES = (0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5B, 0x7B)
_MAX_CHANGES = 6


def mutate(seeds: Sequence[bytes], tokens: Sequence[bytes], longest: int, chance: random.Random) -> bytes:
    """Return one of the seeds, changed in one to six places."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, _MAX_CHANGES)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = chance.choice(_BYTES)
        elif kind == 2:
            del data[at : at + chance.choice((1, 2, 4, 8, 64))]
        elif kind == 3:
            data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.choice((1, 4, 16, 256))]
        elif kind == 4:
            width = chance.choice((1, 2, 4, 8))
            value = chance.choice((0, 1, (1 << (8 * width)) - 1, 1 << (8 * width - 1), chance.getrandbits(8 * width)))
            data[at : at + width] = value.to_bytes(width, "little")
        elif kind == 5 and tokens:
            token = chance.choice(tokens)
            data[at : at + chance.choice((0, 1, len(token)))] = token
        elif kind == 6:
            other = chance.choice(seeds)
            data[at:] = other[chance.randrange(len(other) + 1) :]
        else:
            del data[at:]
    return bytes(data[:longest])
