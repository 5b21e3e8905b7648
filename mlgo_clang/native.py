"""Networks and rules as native code, which also reads the rest of a channel and computes callee features."""

from __future__ import annotations

import ctypes
import os
import sys

from mlgo_clang.errors import PolicyError, ProtocolError
from mlgo_clang.files import cache_folder, digest_of, file_identity, lock, read_checked, read_untrusted, write_cached
from mlgo_clang.link_facts import FEATURES as LINK_FEATURES
from mlgo_clang.link_facts import covers, read_lines
from mlgo_clang.programs import run_to_end
from mlgo_clang.protocol import CALLEE_SOURCES, Header, LogDecoder, Tensor, silence
from mlgo_clang.settings import DEFAULT_TIMEOUT, PACKAGE, network_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_LOCK_SECONDS = 120.0
"""Longest wait for another compile that builds the same code; it takes two seconds, on a busy machine a minute."""

_GENERATORS = ("deploy", "deploy/templates", "policies", "compiler")
"""Folders of `mlgo_gym` with the files that generate the code."""

_QUIET, _OTHERS, _ENDED = range(3)
_PROBLEMS = (
    "clang requests decisions without reading the advice",
    "expected an observation and a newline from clang, got other bytes",
    "expected clang to print functions before inlining, got none; use a policy without callee features",
    "the channel or the text that clang prints cannot be read",
)
"""Problems of a channel, in the order of the states in `channel.c`."""


class NativeNetwork:
    """A policy as native code, built once by a clang and kept in the cache folder.

    The policy is `mlp:FILE`, `rule:FILE` or a bundled one. It may use a file of link facts about the source that is
    compiled. Raises `PolicyError` if the file is missing or no policy, its code cannot be built or loaded, or the facts
    are damaged.

    Attributes:
        callee_features: names of the callee features, in order; empty if the network uses none.
        library: the loaded code.
    """

    def __init__(self, policy: str, compiler: Sequence[str], link_facts: str = "", source: str = "") -> None:
        path = network_file(policy)
        try:
            library = _library(path, compiler)
        except OSError as error:
            raise PolicyError(f"expected a cache folder that can be written, got {error}; set MLGO_CACHE") from error
        try:
            self.library = ctypes.CDLL(library)
        except OSError as error:
            raise PolicyError(f"the native code of {path} cannot be loaded: {error}; remove {library}") from error
        self.callee_features = tuple(self._words("mlgo_callee_features"))
        uses_facts = link_facts and not {*LINK_FEATURES}.isdisjoint(self._words("mlgo_inputs"))
        lines = read_lines(link_facts) if uses_facts else b""
        self._facts = (lines, covers(lines, source)) if uses_facts else None

    def _words(self, symbol: str) -> list[str]:
        return (ctypes.c_char_p.in_dll(self.library, symbol).value or b"").decode().split()

    def bind(self, header: Header) -> NativeServer:
        """Return the server of a channel; raise PolicyError if clang lacks a feature."""
        extended = Header((*header.features, *(Tensor(name, "float", (1,)) for name in self.callee_features)))
        inputs = [_offset(extended, name) for name in self._words("mlgo_inputs")]
        sources = [_offset(header, name) for name in CALLEE_SOURCES] if self.callee_features else []
        return NativeServer(self.library, header, inputs, sources, self._facts)

    def other_messages(self, printed: bytes) -> bytes:
        """Return standard error of a clang that requested nothing, without the output that callee features need."""
        native = self.library
        native.mlgo_prediction_start.restype = ctypes.c_void_p
        native.mlgo_prediction_others.restype = ctypes.c_int64
        prediction = ctypes.c_void_p(native.mlgo_prediction_start(False))
        native.mlgo_prediction_read(prediction, printed, ctypes.c_int64(len(printed)))
        text = ctypes.c_void_p()
        return ctypes.string_at(text, native.mlgo_prediction_others(prediction, ctypes.byref(text)))


def _library(path: str, compiler: Sequence[str]) -> str:
    """Return the native code of a network's file, which is built if need be.

    Its name is the digest of its bytes. A note has the path, and the identities of the files that the code is generated
    from, because these take longer to read than a compile.
    """
    folder = os.path.join(cache_folder(), "mlgo-clang")
    program = os.stat(compiler[0])
    note = os.path.join(folder, f"{file_identity(os.stat(path))}-{program.st_dev:x}-{program.st_ino:x}.library")
    facts = _facts(compiler, program)
    library = _noted(note, facts)
    if library:
        return library
    os.makedirs(folder, exist_ok=True)
    with open(f"{note}.lock", "ab") as file:
        is_builder = lock(file.fileno(), 0)
        if not is_builder:
            lock(file.fileno(), _LOCK_SECONDS)
        library = _noted(note, facts)
        if is_builder and not library:
            library = _build(path, compiler, note, facts)
    # The builder failed, or does not continue: the other compiles build at the same time, each for itself.
    return library or _build(path, compiler, note, facts)


def _build(path: str, compiler: Sequence[str], note: str, facts: bytes) -> str:
    # With `-m` Python would import modules of the current folder, such as a project's json.py.
    start = f"import sys; sys.path[:] = {sys.path!r}; import runpy; "
    start += "runpy.run_module('mlgo_gym.deploy.c_code', run_name='__main__')"
    status, output, errors = run_to_end([sys.executable, "-c", start, path, *compiler], DEFAULT_TIMEOUT)
    if status != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise PolicyError(lines[-1] if lines else f"native code of {path} failed without an error message")
    library = output.decode().strip()
    write_cached(note, os.fsencode(library) + b"\0" + facts)
    return library


def _noted(note: str, facts: bytes) -> str:
    """Return the library that a note names; empty if there is none, if it was changed, or if the facts were others."""
    name, _, known = (read_checked(note) or b"").partition(b"\0")
    library = os.fsdecode(name)
    try:
        digest = os.path.splitext(os.path.basename(library))[0]
        return library if known == facts and digest_of(read_untrusted(library)) == digest else ""
    except OSError:
        return ""


def _facts(compiler: Sequence[str], program: os.stat_result) -> bytes:
    facts = [*compiler, file_identity(program)]
    for generators in _GENERATORS:
        try:
            with os.scandir(os.path.join(PACKAGE, generators)) as entries:
                facts += sorted(f"{entry.name} {file_identity(entry.stat())}" for entry in entries if entry.is_file())
        except OSError:
            continue
    return os.fsencode("\n".join(facts))


def _offset(header: Header, name: str) -> int:
    """Return the offset of an input, `NAME` or `NAME[COLUMN]`, in an observation; its complement for a float."""
    feature, _, column = name.partition("[")
    tensor = header.tensors.get(feature)
    number = int(column.removesuffix("]") or 0)
    if tensor is None or tensor.type not in ("int64_t", "float") or number >= tensor.size:
        raise PolicyError(
            f"the network needs the feature {name}, and this clang has {', '.join(header.tensors)}; use the clang "
            "that the network was trained with"
        )
    if tensor.type == "float":
        return ~(header.offsets[feature] + number * 4)
    return header.offsets[feature] + number * 8


class NativeServer:
    """Native code that answers the observations of a channel.

    `sources` are offsets of the features that callee features are computed from, empty without these. `facts` are
    None, or the lines of a file of link facts and whether they cover the source.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        header: Header,
        inputs: Sequence[int],
        sources: Sequence[int],
        facts: tuple[bytes, bool] | None,
    ) -> None:
        self._library, self._header, self._sources, self._facts = library, header, sources, facts
        self._inputs = (ctypes.c_int32 * len(inputs))(*inputs)
        self._channel = ctypes.c_void_p()

    def start(self, log: int, advice: int, decoder: LogDecoder, messages: int, folder: int) -> None:
        """Start to serve a channel by the descriptors of its observations and advice.

        `decoder` has read the header, `messages` is the file of clang's standard error, and `folder` the folder in
        which clang prints code; -1 if it prints to standard error.
        """
        native = self._library
        native.mlgo_channel.restype = native.mlgo_prediction_start.restype = ctypes.c_void_p
        data = decoder.rest
        size, length = ctypes.c_int64(self._header.observation_bytes), ctypes.c_int64(len(data))
        self._channel.value = native.mlgo_channel(log, advice, size, self._inputs, data, length)
        if self._sources:
            offsets = self._header.offsets.values()
            table = (ctypes.c_int32 * len(offsets))(*offsets)
            prediction = ctypes.c_void_p(native.mlgo_prediction_start(False))
            native.mlgo_prediction_layout(prediction, table, len(offsets), *self._sources)
            if self._facts is not None:
                lines, covered = self._facts
                native.mlgo_prediction_facts(prediction, lines, ctypes.c_int64(len(lines)), covered)
            if not native.mlgo_channel_predict(self._channel, prediction, messages, folder):
                raise OSError("the folder of the code that clang prints cannot be read")

    def serve(self, others: Sequence[int], milliseconds: int) -> bool:
        """Answer until clang closes the channel, another descriptor is readable, or nothing happens for some time."""
        table = (ctypes.c_int32 * len(others))(*others)
        status = self._library.mlgo_channel_serve(self._channel, table, len(others), milliseconds)
        if status == _QUIET and milliseconds:
            raise silence(milliseconds)
        if status > _ENDED:
            raise ProtocolError(_PROBLEMS[status - _ENDED - 1])
        return bool(status != _ENDED)

    @property
    def decisions(self) -> int:
        """Number of decisions so far."""
        return self._text("mlgo_channel_answers")[1]

    @property
    def answers(self) -> str:
        """A `0` or `1` for each decision so far."""
        return ctypes.string_at(*self._text("mlgo_channel_answers")).decode()

    def other_messages(self) -> bytes:
        """Return standard error without the output that callee features need; clang has exited."""
        text, length = self._text("mlgo_channel_others")
        if length < 0:
            raise OSError("the standard error of clang cannot be read")
        return ctypes.string_at(text, length)

    def _text(self, function: str) -> tuple[ctypes.c_void_p, int]:
        read = getattr(self._library, function)
        read.restype = ctypes.c_int64
        text = ctypes.c_void_p()
        length = read(self._channel, ctypes.byref(text)) if self._channel else 0
        return text, length
