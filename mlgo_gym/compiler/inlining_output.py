"""Clang's output about inlining: sites, callees and callee features of the decisions of one compile.

The channel of the inlining advisor has no contexts. With `-print-before=inline`
(llvm/lib/Passes/StandardInstrumentations.cpp) clang prints the functions of each strongly connected component of the
call graph before the inliner visits it. With `-Rpass=inline-ml` (llvm/lib/Analysis/MLInlineAdvisor.cpp) it prints a
remark with the callee after each decision. No other output of clang 17 to 22 contains both in less text.

`callee_prediction.c` reads it; the bundled compiler builds that code at the first use.
"""

import ctypes
import os
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from typing_extensions import Self

from mlgo_clang.channel import PRINTING, REMARKS
from mlgo_clang.protocol import CALLEE_SOURCES
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.compiler.native_library import build_library, compile_library
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.llvm.training_log import LogHeader

CONTEXT_FLAGS = ("-mllvm", *PRINTING)
"""The `-cc1` arguments that print the functions that the inliner visits; they do not change the object."""

CALLEE_FLAGS = (*CONTEXT_FLAGS, *REMARKS)
"""The same, with the callee of each decision."""

CODE_FLAGS = (*CALLEE_FLAGS, "-mllvm", "-print-before=coro-split")
"""The same, with the simplified code of each function after the inliner has left it."""

_BANNER = "*** IR Dump Before InlinerPass on () ***\n"
_BANNERS = re.compile(rb"^(?:; )?\*\*\* IR Dump Before (Inliner|CoroSplit)Pass on \(", re.MULTILINE)
_LINK_FACTS = struct.Struct("<2f")


def callee_prediction_code() -> str:
    """Return the C that reads the output."""
    return (files("mlgo_gym.compiler") / "callee_prediction.c").read_text(encoding="ascii")


@lru_cache(maxsize=1)
def _library() -> ctypes.PyDLL:
    code, compiler = callee_prediction_code(), bundled_command()
    try:
        path = str(build_library(code, compiler))
    except OSError:
        # The cache cannot be written: each process builds the library for itself.
        descriptor = os.memfd_create("mlgo-gym-library", os.MFD_CLOEXEC)
        os.write(descriptor, compile_library(code, compiler))
        path = f"/proc/self/fd/{descriptor}"
    # The calls are short, so they keep the interpreter's lock.
    native = ctypes.PyDLL(path)
    for name in ("start", "copy"):
        getattr(native, f"mlgo_prediction_{name}").restype = ctypes.c_void_p
    for name in ("name", "others", "callees"):
        getattr(native, f"mlgo_prediction_{name}").restype = ctypes.c_longlong
    native.mlgo_prediction_read.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_longlong)
    return native


class PrintedDecision(NamedTuple):
    """The pending decision as clang's output shows it.

    Attributes:
        context, visit, index: Its `DecisionSite`.
        callee: Predicted callee; empty if unknown.
        features: The callee features as float32, in the order of `CALLEE_FEATURES`.
    """

    context: str
    visit: int
    index: int  # type: ignore[assignment] # it hides a method of tuples
    callee: str
    features: bytes


class ExpectedCall(NamedTuple):
    """A possible call of the pending decision.

    Attributes:
        callee, caller: Names of the functions.
        call_in: Name of the function whose code contains the call: the caller, or a function inlined into it.
        position: Number of earlier direct calls in that code; -1 if unknown.
    """

    callee: str
    caller: str
    call_in: str
    position: int


class InliningOutput:
    """Follows the inlining decisions of one compile.

    Args:
        link_facts: Link facts of the build, for the callee features.
        follows_code: Whether the code that the inliner leaves (`CODE_FLAGS`) is followed too.

    Attributes:
        unfinished: Bytes of a line that is not complete yet.
    """

    def __init__(self, link_facts: LinkFacts | None = None, *, follows_code: bool = False) -> None:
        self._native = _library()
        self._begin(link_facts, self._native.mlgo_prediction_start(follows_code))

    def _begin(self, link_facts: LinkFacts | None, state: int) -> None:
        # A pointer of ctypes cannot be pickled, and no copy of it may free the state.
        self._state = ctypes.c_void_p(state)
        self._link_facts = link_facts
        self.unfinished = b""
        self._header: LogHeader | None = None
        self._names: dict[int, str] = {}
        self._features = (ctypes.c_float * len(CALLEE_FEATURES))()
        self._numbers = (ctypes.c_int * 4)()

    def __del__(self) -> None:
        if hasattr(self, "_state"):
            self._native.mlgo_prediction_free(self._state)

    def read(self, data: bytes) -> None:
        """Read more output."""
        if self.unfinished:
            data = self.unfinished + data
        end = data.rfind(b"\n") + 1
        self._native.mlgo_prediction_read(self._state, data, end)
        self.unfinished = data[end:]

    def messages(self) -> bytes:
        """Return the lines since the last call that are not about inlining."""
        text = ctypes.c_void_p()
        return ctypes.string_at(text, self._native.mlgo_prediction_others(self._state, ctypes.byref(text)))

    def next_decision(self, payload: bytes, header: LogHeader) -> PrintedDecision | None:
        """Turn to the next decision; all output before it must have been read. None without a context.

        Payload and header are as clang wrote them.
        """
        if header is not self._header:
            self._set_layout(header)
        if not self._native.mlgo_prediction_features(self._state, payload, self._features):
            return None
        self._native.mlgo_prediction_site(self._state, self._numbers)
        context, visit, index, callee = self._numbers
        name, features = self._name(callee), bytes(self._features)
        if self._link_facts is not None:
            features = features[: -_LINK_FACTS.size] + _LINK_FACTS.pack(*self._link_facts.of(name))
        return PrintedDecision(self._name(context), visit, index, name, features)

    def _set_layout(self, header: LogHeader) -> None:
        self._header = header
        # clang prints the features as int64, of an embedding its first element.
        offsets = {name: offset for name, offset in header.offsets.items() if header.tensors[name].nbytes >= 8}
        table = (ctypes.c_int * len(offsets))(*offsets.values())
        sources = (offsets.get(name, -1) for name in CALLEE_SOURCES)
        self._native.mlgo_prediction_layout(self._state, table, len(offsets), *sources)

    def _name(self, index: int) -> str:
        if (name := self._names.get(index)) is None:
            text = ctypes.c_void_p()
            length = self._native.mlgo_prediction_name(self._state, index, ctypes.byref(text))
            name = self._names[index] = ctypes.string_at(text, length).decode(errors="surrogateescape")
        return name

    def answer(self, advice: bytes) -> None:
        """Note the answer to the pending decision: 0 keeps the call, other values inline it."""
        self._native.mlgo_prediction_answer(self._state, any(advice))

    def callees(self) -> list[str]:
        """Return the callees of all decisions, as clang's remarks name them; empty where it printed none.

        All output must have been read.
        """
        table = ctypes.POINTER(ctypes.c_int)()
        count = self._native.mlgo_prediction_callees(self._state, ctypes.byref(table))
        return [self._name(table[index]) for index in range(count)]

    def decided_call(self) -> tuple[str, str, bool] | None:
        """Return caller and callee of the last decision, and whether the inliner has begun another component since.

        None if clang has not named the callee.
        """
        result = self._native.mlgo_prediction_decided(self._state, self._numbers)
        caller, callee, *_ = self._numbers
        return (self._name(caller), self._name(callee), result == 2) if result else None

    def expected_calls(self) -> Iterator[ExpectedCall]:
        """Yield the possible calls of the pending decision, in order, whose callee has its number of basic blocks."""
        at, numbers = 0, (ctypes.c_int * 4)()
        while at := self._native.mlgo_prediction_expected(self._state, at, numbers):
            callee, caller, call_in, position = numbers
            yield ExpectedCall(self._name(callee), self._name(caller), self._name(call_in), position)

    def drop_calls_in(self, function: str) -> None:
        """Forget the calls in a function that clang has removed."""
        name = function.encode(errors="surrogateescape")
        self._native.mlgo_prediction_drop(self._state, name, ctypes.c_longlong(len(name)))

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = object.__new__(type(self))
        copied._native = self._native
        copied._begin(self._link_facts, self._native.mlgo_prediction_copy(self._state))
        copied.unfinished, copied._header = self.unfinished, self._header
        return copied


class FunctionFacts(NamedTuple):
    """A printed function: `linkage` is coded as `callee_linkage`, `blocks` and `instructions` are numbers.

    `callees` are those of its direct calls, in order, and `call_lines` the indices of the lines of these calls.
    """

    name: str
    linkage: int
    instructions: int
    blocks: int
    callees: tuple[str, ...]
    call_lines: tuple[int, ...]


def function_facts(code: str) -> FunctionFacts:
    """Return the facts of a printed function."""
    output = InliningOutput(follows_code=True)
    output.read((_BANNER + code).encode(errors="surrogateescape"))
    native, state, numbers = output._native, output._state, (ctypes.c_int * 4)()
    count = native.mlgo_prediction_function(state, numbers)
    function, linkage, instructions, blocks = numbers
    callees: list[str] = []
    lines: list[int] = []
    for position in range(count):
        native.mlgo_prediction_call(state, position, numbers)
        callees.append(output._name(numbers[0]))
        lines.append(numbers[1] - 1)  # after the banner
    return FunctionFacts(output._name(function), linkage, instructions, blocks, tuple(callees), tuple(lines))


def printed_components(text: bytes) -> Iterator[tuple[bool, str]]:
    """Yield the code of each component in some output: before a visit of the inliner (False), or after it (True)."""
    pieces = _BANNERS.split(text)
    for banner, code in zip(pieces[1::2], pieces[2::2], strict=True):
        yield banner == b"CoroSplit", code.decode(errors="surrogateescape")
