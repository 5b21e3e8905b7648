"""A channel: its header, its two pipes, and the servers that read clang's observations and write the advice.

`mlgo_gym.llvm.training_log` reads all of LLVM's format. It needs `json`, whose import takes as long as the compile of a
small file. This module reads the one line that LLVM's `TrainingLogger` always writes in the same form.
"""

from __future__ import annotations

import os
import struct

from mlgo_clang.errors import PolicyError, ProtocolError
from mlgo_clang.files import remove_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlgo_clang.native import NativeServer

    Decide = Callable[[bytes, int], int]
    """Takes a buffer and the offset of an observation in it, and returns the advice."""

    Bind = Callable[["Header"], Decide | NativeServer]
    """Takes the header of a channel; returns the function that decides, or the server of the channel."""

_SIZES = {"int64_t": 8, "float": 4, "int32_t": 4, "double": 8, "uint8_t": 1, "int8_t": 1}
_LARGEST_OBSERVATION = 1 << 24
_LONGEST_HEADER = 1 << 20


class Tensor:
    """One feature: its offset in an observation in bytes, its number of elements, and their type in C++."""

    def __init__(self, offset: int, count: int, type: str) -> None:  # noqa: A002 - LLVM's own name of it
        self.offset, self.count, self.type = offset, count, type


class Header:
    """The features of an advisor by name (`tensors`), and the bytes of an observation (`size`)."""

    def __init__(self, tensors: Mapping[str, Tensor], size: int) -> None:
        self.tensors, self.size = tensors, size


def read_header(line: bytes) -> Header:
    """Return the header in the first line of a channel; raise ProtocolError if the advice is not one `int64_t`."""
    try:
        features, advice = line.decode("ascii").split('],"advice":')
        if _field(advice, "type") != "int64_t" or _element_count(advice) != 1:
            raise ValueError(advice)
        tensors = {}
        offset = 0
        for text in features.split("{")[2:]:
            kind = _field(text, "type")
            count = _element_count(text)
            tensors[_field(text, "name")] = Tensor(offset, count, kind)
            offset += count * _SIZES[kind]
    except (ValueError, LookupError) as error:
        raise ProtocolError(f"expected a header of features and advice, got {line[:200]!r}") from error
    if offset > _LARGEST_OBSERVATION:
        raise ProtocolError(f"expected observations of at most {_LARGEST_OBSERVATION} bytes, got a header for {offset}")
    return Header(tensors, offset)


def _field(text: str, name: str) -> str:
    return text.split(f'"{name}":"', 1)[1].split('"', 1)[0]


def _element_count(text: str) -> int:
    count = 1
    for extent in text.split('"shape":[', 1)[1].split("]", 1)[0].split(","):
        count *= int(extent)
    return count


class RuleServer:
    """Answers each observation of `size` bytes by a function of Python."""

    def __init__(self, size: int, decide: Decide) -> None:
        self.decisions = 0
        self._size, self._decide = size, decide
        self._log = self._advice = -1
        self._data = b""

    def start(self, log: int, advice: int, data: bytes, messages: int, folder: int) -> None:
        """Start to serve a channel by the descriptors of its observations and advice.

        `data` are the bytes after the header, `messages` is the file of clang's standard error, and `folder` the folder
        in which clang prints code; -1 if it prints to standard error. A rule needs neither.
        """
        del messages, folder
        self._log, self._advice = log, advice
        self._answer(data)

    def serve(self, others: Sequence[int], milliseconds: int) -> bool:
        """Answer what clang has written; return whether it can still write."""
        del others, milliseconds
        try:
            new = os.read(self._log, 1 << 16)
        except BlockingIOError:
            return True
        if not new:
            return False
        self._answer(self._data + new if self._data else new)
        return True

    def _answer(self, data: bytes) -> None:
        position = 0
        while (newline := data.find(b"\n", position)) >= 0:
            if data.startswith(b'{"context"', position):
                position = newline + 1
                continue
            end = newline + 1 + self._size
            if len(data) <= end:
                break
            if not data.startswith(b'{"observation"', position) or data[end] != 10:
                raise ProtocolError(
                    f"expected an observation of {self._size} bytes and a newline, got "
                    f"{data[position : position + 100]!r}"
                )
            advice = self._decide(data, newline + 1)
            try:
                os.write(self._advice, advice.to_bytes(8, "little", signed=True))
            except BlockingIOError:
                raise ProtocolError("clang requests decisions without reading the advice") from None
            self.decisions += 1
            position = end + 1
        self._data = data[position:]


class Channel:
    """The two pipes of a channel at a base path, and the server that answers once the header is read.

    Args:
        base: path of the pipes without their suffixes.
        bind: makes the server from the header.
        prints: whether clang prints code to files in a folder at the base.
    """

    def __init__(self, base: str, bind: Bind, *, prints: bool) -> None:
        self.base, self.bind, self.prints = base, bind, prints
        self.advice = self.log = self.folder = -1
        self.data = b""
        self.server: RuleServer | NativeServer | None = None

    def open(self) -> None:
        """Make and open the pipes; raise OSError if that fails."""
        os.mkfifo(f"{self.base}.in", 0o600)
        os.mkfifo(f"{self.base}.out", 0o600)
        # With O_RDWR there is a reader from the start: a blocking open would wait for clang.
        self.advice = os.open(f"{self.base}.in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = os.open(f"{self.base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if self.prints:
            os.mkdir(self.base, 0o700)
            self.folder = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def serve(self, others: Sequence[int], milliseconds: int, messages: int) -> bool:
        """Answer what clang has written; return whether it can still write."""
        if self.server is not None:
            return self.server.serve(others, milliseconds)
        try:
            self.data += os.read(self.log, 1 << 16)
        except BlockingIOError:
            return True
        line, newline, rest = self.data.partition(b"\n")
        if newline:
            header = read_header(line)
            decide = self.bind(header)
            self.server = RuleServer(header.size, decide) if callable(decide) else decide
            self.remove_names()
            self.server.start(self.log, self.advice, rest, messages, self.folder)
            return self.server.serve(others, milliseconds)
        if len(self.data) > _LONGEST_HEADER:
            raise ProtocolError(f"expected a header of at most {_LONGEST_HEADER} bytes, got a longer line")
        return True

    def remove_names(self) -> None:
        """Remove the files of the channel once both ends are open, and the folder after the last channel."""
        for name in (f"{self.base}.in", f"{self.base}.out"):
            try:
                os.unlink(name)
            except OSError:
                continue
        try:
            os.rmdir(os.path.dirname(self.base))
        except OSError:  # another channel is not open yet
            return

    def close(self) -> None:
        """Close the pipes, and remove what is left of the channel."""
        for descriptor in (self.advice, self.log, self.folder):
            if descriptor >= 0:
                os.close(descriptor)
        if self.folder >= 0:
            # Code that clang printed after the last decision.
            remove_folder(self.base)
        self.advice = self.log = self.folder = -1
        self.remove_names()


def silence(milliseconds: int) -> ProtocolError:
    """Return the error of a clang that did nothing for some time."""
    return ProtocolError(
        f"clang gave no sign of life for {milliseconds / 1000:g} s while a policy decided; raise --mlgo-timeout"
    )


INLINING = ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=", "-inliner-interactive-include-default")
EVICTION = ("-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base=")
PRIORITY = ("-regalloc-enable-priority-advisor=release", "-regalloc-priority-interactive-channel-base=")

PRINTING = ("-print-before=inline",)
"""Options that print the code that the inliner visits, to standard error."""

PRINTING_FILES = (*PRINTING, "-ir-dump-directory=")
"""The same, to files in a folder named as the base of the channel; clang has the option since version 18."""

REMARKS = ("-Rpass=inline-ml", "-Rpass-missed=inline-ml")
"""Options with which clang names the callee after each decision (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

SIZE_LIMIT = "-ml-advisor-size-increase-threshold"

WASM_SIZE_LIMIT = f"{SIZE_LIMIT}=16"
"""Option of every compile for WebAssembly with an advisor, unless the user names a limit.

The ML advisor inlines nothing more when its estimate of the module has grown so many times; by default twice. Clang's
own choices exceed that for WebAssembly. Without a limit calls in a tree of functions make a module grow exponentially.
"""


def at_base(options: Sequence[str], base: str) -> list[str]:
    """Return the options of an advisor for the channel at a base path."""
    return [option + base if option.endswith("=") else option for option in options]


def inlining_rule(policy: str) -> Bind | None:
    """Return the rule that a policy names: `never`, `always` or `threshold:N`; None for a policy in a file."""
    name, _, argument = policy.partition(":")
    if policy in ("never", "always"):
        advice = int(policy == "always")
        return lambda _header: lambda _data, _start: advice
    return _below(threshold_of(argument)) if name == "threshold" else None


def threshold_of(text: str) -> float:
    """Return the number in `threshold:TEXT`, by default 0; raise PolicyError if it is none."""
    try:
        number = float(text or 0)
    except ValueError:
        number = float("nan")
    if number != number:
        raise PolicyError(f"expected threshold:NUMBER, got 'threshold:{text}'; write for instance threshold:20")
    return number


def _below(threshold: float) -> Bind:
    def bind(header: Header) -> Decide:
        tensor = header.tensors.get("cost_estimate")
        if tensor is None or tensor.type != "int64_t":
            raise PolicyError("threshold needs the feature cost_estimate, which this clang does not compute")
        offset = tensor.offset
        unpack = struct.Struct("<q").unpack_from
        return lambda data, start: int(unpack(data, start + offset)[0] < threshold)

    return bind
