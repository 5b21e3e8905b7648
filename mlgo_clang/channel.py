"""A channel: its two pipes, through which clang's observations are read and the advice is written."""

from __future__ import annotations

import os
import struct

from mlgo_clang.errors import PolicyError, ProtocolError
from mlgo_clang.files import remove_file, remove_folder
from mlgo_clang.protocol import LogDecoder, open_pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlgo_clang.native import NativeServer
    from mlgo_clang.protocol import Header

    Decide = Callable[[bytes], int]
    """Takes an observation and returns the advice."""

    Bind = Callable[[Header], Decide | NativeServer]
    """Takes the header of a channel; returns the function that decides, or the server of the channel."""


class Channel:
    """The two pipes of an advisor at a base path, and the decisions about clang's observations.

    Args:
        base: path of the pipes without their suffixes.
        bind: decides, given the header.
        prints: whether clang prints code to files in a folder at the base.

    Attributes:
        advice, log: descriptors of the pipes.
        server: native code that serves the channel; None before the header, and for a function of Python.
    """

    def __init__(self, base: str, bind: Bind, *, prints: bool) -> None:
        self.base, self._bind, self._prints = base, bind, prints
        self.log = self.advice = self._folder = -1
        self.server: NativeServer | None = None
        self._decide: Decide | None = None
        self._decoder = LogDecoder()
        self._decisions = 0

    @property
    def decisions(self) -> int:
        """Number of decisions so far."""
        return self._decisions if self.server is None else self.server.decisions

    def open(self) -> None:
        """Make and open the pipes; raise OSError if that fails."""
        self.advice, self.log = open_pipes(self.base)
        if self._prints:
            os.mkdir(self.base, 0o700)
            self._folder = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def serve(self, others: Sequence[int], milliseconds: int, messages: int) -> bool:
        """Answer what clang has written; return whether it can still write.

        Native code answers until another descriptor is readable, or nothing happens for some time. `messages` is the
        file of clang's standard error.
        """
        if self.server is not None:
            return self.server.serve(others, milliseconds)
        try:
            data = os.read(self.log, 1 << 16)
        except BlockingIOError:
            return True
        if self._decide is not None and not data:
            return False
        if (observation := self._decoder.take_observation(data)) is not None:
            self._answer(observation[1])
            return True
        self._decoder.feed(data)
        if self._decide is None:
            if (header := self._decoder.read_header()) is None:
                return True
            header.check_advice("int64_t")
            decide = self._bind(header)
            self.remove_files()
            if not callable(decide):
                self.server = decide
                decide.start(self.log, self.advice, self._decoder, messages, self._folder)
                return decide.serve(others, milliseconds)
            self._decide = decide
        while (event := self._decoder.next_event()) is not None:
            if not isinstance(event, str):
                self._answer(event[1])
        return True

    def _answer(self, observation: bytes) -> None:
        assert self._decide is not None, "the header was read"
        try:
            os.write(self.advice, self._decide(observation).to_bytes(8, "little", signed=True))
        except BlockingIOError:
            raise ProtocolError("clang requests decisions without reading the advice") from None
        self._decisions += 1

    def remove_files(self) -> None:
        """Remove the pipes, which are open at both ends, and their folder unless clang prints code there."""
        for name in (f"{self.base}.in", f"{self.base}.out"):
            remove_file(name)
        try:
            os.rmdir(os.path.dirname(self.base))
        except OSError:  # it has the folder of the code that clang prints
            return

    def close(self) -> None:
        """Close the pipes, and remove what is left of the channel, such as code after the last decision."""
        for descriptor in (self.advice, self.log, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        remove_folder(os.path.dirname(self.base))


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
        return lambda _header: lambda _observation: advice
    if name != "threshold":
        return None
    threshold = threshold_of(argument)

    def bind(header: Header) -> Decide:
        tensor = header.tensors.get("cost_estimate")
        if tensor is None or tensor.type != "int64_t":
            raise PolicyError("threshold needs the feature cost_estimate, which this clang does not compute")
        offset = header.offsets[tensor.name]
        unpack = struct.Struct("<q").unpack_from
        return lambda observation: int(unpack(observation, offset)[0] < threshold)

    return bind


def threshold_of(text: str) -> float:
    """Return the number in `threshold:TEXT`, by default 0; raise PolicyError if it is none."""
    try:
        number = float(text or 0)
    except ValueError:
        number = float("nan")
    if number != number:
        raise PolicyError(f"expected threshold:NUMBER, got 'threshold:{text}'; write for instance threshold:20")
    return number
