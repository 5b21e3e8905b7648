"""The stack frames of a compile, and a limit of those that a policy causes."""

from __future__ import annotations

import os

from mlgo_clang.counters import count
from mlgo_clang.errors import FrameError
from mlgo_clang.object_size import read_frames
from mlgo_clang.programs import compile_command, run_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class FrameList:
    """A file in memory to which clang writes the stack frames of a compile, as for `-fstack-usage`.

    Attributes:
        options: the options with which clang does so.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("mlgo-clang-frames", os.MFD_CLOEXEC)
        self.options = ("-Xclang", "-stack-usage-file", "-Xclang", f"/proc/{os.getpid()}/fd/{self._file}")

    def read(self) -> dict[str, int]:
        """Return the bytes of each frame, by the place and the name of its function."""
        return read_frames(os.pread(self._file, os.fstat(self._file).st_size, 0))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def check_frames(
    frames: dict[str, int], limit: int, compiler: Sequence[str], arguments: Sequence[str], timeout: float
) -> None:
    """Raise `FrameError` if a frame exceeds the limit, and is larger than that of clang alone.

    Args:
        frames: the frames of the compile with a policy.
        limit: bytes.
        compiler: the words that start clang.
        arguments: its arguments.
        timeout: seconds after which a compile by clang alone is stopped.
    """
    large = {place: size for place, size in frames.items() if size > limit}
    if not large:
        return
    plain = FrameList()
    try:
        command = compile_command(compiler, arguments, ("-w", *plain.options), os.devnull)
        alone = plain.read() if run_to_end(command, timeout).returncode == 0 else {}
    finally:
        plain.close()
    # A function that clang alone inlines everywhere has its frame within another one.
    largest = max(alone.values(), default=0)
    for place, size in large.items():
        if size > (before := alone.get(place, largest)):
            count("with a larger stack frame")
            growth = f"the frame of {place} has {size} bytes instead of {before}"
            raise FrameError(f"{growth}, and --mlgo-max-frame is {limit}")
