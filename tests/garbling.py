"""Ways in which a file of a cache is damaged."""

import random
from collections.abc import Iterator


def garblings(data: bytes, number: int, seed: int = 0) -> Iterator[bytes]:
    """Yield as many other contents: cut, with other bits or digits, without a part, longer, empty or of zeros."""
    generator = random.Random(seed)
    digits = [place for place, byte in enumerate(data) if 48 <= byte < 58] or [0]
    made = 0
    while made < number:
        position = generator.randrange(max(len(data), 1))
        end = position + generator.randrange(1, 64)
        digit = generator.choice(digits)
        bit = bytes([data[position] ^ 1 << generator.randrange(8)]) if data else b"x"
        changed = (
            data[:position] + bit + data[position + 1 :],
            data[:position],
            data[:digit] + b"%d" % generator.randrange(10) + data[digit + 1 :],
            data[:position] + data[end:],
            data + generator.randbytes(8),
            b"",
            bytes(len(data)),
        )[made % 7]
        if changed != data:
            made += 1
            yield changed
