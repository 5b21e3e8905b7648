"""Names on a terminal: what would steer it is shown as a number, since names are other people's."""

from __future__ import annotations

from itertools import chain

_KEPT = "\t\n"
_STEERING = {
    number: f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
    for number in chain(range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    if chr(number) not in _KEPT
}


def visible(text: str) -> str:
    """Return a text with a number in the place of each character that steers a terminal, but for tabs and line ends.

    With these a name could write into the clipboard or the title, move the cursor over other lines, or turn around the
    order in which characters are shown.
    """
    return text.translate(_STEERING)
