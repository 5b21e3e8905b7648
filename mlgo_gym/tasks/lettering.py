"""Text as pixels, quick enough for every step: Pillow draws each letter once, and lines are put together of those."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError

Pixels = npt.NDArray[np.uint8]
"""A picture: uint8 of shape (height, width, 3)."""

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""


class Lettering:
    """Pillow's own font at one size.

    Args:
        size: the size of the letters in pixels.

    Attributes:
        height: the height of a line in pixels.

    Raises:
        MissingExtraError: Pillow is not installed.
    """

    def __init__(self, size: int) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError as error:
            raise MissingExtraError('render_mode="rgb_array"', "render") from error
        self.height = size + size // 3
        self._font = ImageFont.load_default(size)
        self._new, self._draw = Image.new, ImageDraw.Draw
        self._letter = lru_cache(maxsize=1024)(self._draw_letter)
        self._line = lru_cache(maxsize=256)(self._draw_line)

    def _draw_letter(self, letter: str) -> npt.NDArray[np.uint16]:
        """Return how strongly a letter covers each pixel, 0 to 255."""
        image = self._new("L", (max(1, round(self._font.getlength(letter))), self.height), 0)
        self._draw(image).text((0, 0), letter, font=self._font, fill=255)
        return np.asarray(image).astype(np.uint16)

    def _draw_line(self, text: str) -> npt.NDArray[np.uint16]:
        return np.concatenate([self._letter(letter) for letter in text], axis=1)[:, :, None]

    def write(self, picture: Pixels, text: str, x: int, y: int, colour: Colour, room: int | None = None) -> int:
        """Write a line into a picture, as far as there is room.

        Args:
            picture: the picture.
            text: the line.
            x: where it begins, in pixels from the left.
            y: its upper edge, in pixels from the top.
            colour: its colour.
            room: how wide it may be, in pixels; up to the picture's edge if None.

        Returns:
            Where it ends.
        """
        if not text:
            return x
        room = picture.shape[1] - x if room is None else min(room, picture.shape[1] - x)
        strength = self._line(text)[:, :room]
        part = picture[y : y + self.height, x : x + strength.shape[1]]
        part[:] = (part * (255 - strength) + strength * np.array(colour, np.uint16)) // 255
        return x + int(strength.shape[1])

    def length(self, text: str) -> int:
        """Return how wide a line is, in pixels."""
        return sum(self._letter(letter).shape[1] for letter in text)


@lru_cache
def lettering(size: int) -> Lettering:
    """Return the font at a size, drawn once."""
    return Lettering(size)
