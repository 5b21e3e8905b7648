"""What a terminal gets: exit status and text."""

from itertools import chain

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

_CONTROL = {
    number: f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
    for number in chain(range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    if chr(number) not in "\t\n"
}


def escape_control_characters(text: str) -> str:
    """Return a text with control characters as escape sequences, except tabs and line ends.

    Raw, they could write to the clipboard, move the cursor, or reverse the order of characters.
    """
    return text.translate(_CONTROL)
