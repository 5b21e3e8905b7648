"""A channel: its two pipes, and the servers that read clang's observations and write the advice."""

from __future__ import annotations

import os
import struct

from mlgo_clang.errors import PolicyError, ProtocolError
from mlgo_clang.files import remove_folder
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


class RuleServer:
    """Answers each observation by a function of Python."""

    def __init__(self, decide: Decide) -> None:
        self.decisions = 0
        self._decide = decide
        self._log = self._advice = -1
        self._decoder = LogDecoder()

    def start(self, log: int, advice: int, decoder: LogDecoder, messages: int, folder: int) -> None:
        """Start to serve a channel by the descriptors of its observations and advice.

        `decoder` has read the header, `messages` is the file of clang's standard error, and `folder` the folder in
        which clang prints code; -1 if it prints to standard error. A rule needs neither.
        """
        del messages, folder
        self._log, self._advice, self._decoder = log, advice, decoder
        self._answer()

    def serve(self, others: Sequence[int], milliseconds: int) -> bool:
        """Answer what clang has written; return whether it can still write."""
        del others, milliseconds
        try:
            data = os.read(self._log, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        if (observation := self._decoder.take_observation(data)) is not None:
            self._advise(observation[1])
        else:
            self._decoder.feed(data)
            self._answer()
        return True

    def _answer(self) -> None:
        while (event := self._decoder.next_event()) is not None:
            if not isinstance(event, str):
                self._advise(event[1])

    def _advise(self, observation: bytes) -> None:
        advice = self._decide(observation)
        try:
            os.write(self._advice, advice.to_bytes(8, "little", signed=True))
        except BlockingIOError:
            raise ProtocolError("clang requests decisions without reading the advice") from None
        self.decisions += 1


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
        self.decoder = LogDecoder()
        self.server: RuleServer | NativeServer | None = None

    def open(self) -> None:
        """Make and open the pipes; raise OSError if that fails."""
        self.advice, self.log = open_pipes(self.base)
        if self.prints:
            os.mkdir(self.base, 0o700)
            self.folder = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def serve(self, others: Sequence[int], milliseconds: int, messages: int) -> bool:
        """Answer what clang has written; return whether it can still write."""
        if self.server is not None:
            return self.server.serve(others, milliseconds)
        try:
            self.decoder.feed(os.read(self.log, 1 << 16))
        except BlockingIOError:
            return True
        if (header := self.decoder.read_header()) is None:
            return True
        header.check_advice("int64_t")
        decide = self.bind(header)
        self.server = RuleServer(decide) if callable(decide) else decide
        self.remove_names()
        self.server.start(self.log, self.advice, self.decoder, messages, self.folder)
        return self.server.serve(others, milliseconds)

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
        offset = header.offsets[tensor.name]
        unpack = struct.Struct("<q").unpack_from
        return lambda observation: int(unpack(observation, offset)[0] < threshold)

    return bind
