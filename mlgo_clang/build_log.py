"""The log of a build for `mlgo-gym build`: objects that it compiles, files that it links, and its `--icf`.

Each entry is a kind, a space and a value, and ends with a null character.
"""

from __future__ import annotations

import os

from mlgo_clang.command_lines import expand_response_files
from mlgo_clang.files import read_untrusted, working_folder
from mlgo_clang.invocation import folding_of_link, is_probe, read_invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def log_command(path: str, arguments: Sequence[str]) -> None:
    """Append what a command line compiles or links, unless it is a feature test; an unwritable log has no effect."""
    words, folder = expand_response_files(arguments), working_folder()
    invocation = read_invocation(words)
    if is_probe(invocation.source, folder):
        return
    entries = []
    if invocation.links:
        files = (os.path.join(folder, word) for word in words if not word.startswith("-"))
        entries = [f"icf {folding_of_link(words)}", *(f"link {file}" for file in files if os.path.isfile(file))]
    elif "-c" in words and (invocation.output or invocation.source):
        name = invocation.output or f"{os.path.splitext(os.path.basename(invocation.source))[0]}.o"
        entries = [f"object {os.path.join(folder, name)}"]
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(b"".join(os.fsencode(entry) + b"\0" for entry in entries))
    except OSError:
        return


def read_log(path: str, kind: str) -> list[str]:
    """Return the different values of a kind in a log, in order; none without the file."""
    if not os.path.exists(path):
        return []
    entries = [os.fsdecode(entry).partition(" ") for entry in read_untrusted(path).split(b"\0")]
    return list(dict.fromkeys(value for name, _, value in entries if name == kind))
