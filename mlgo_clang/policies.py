"""What answers clang's questions: rules, which are here, and networks as native code."""

from __future__ import annotations

import os
import struct

from mlgo_clang.cache import cache_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.conversation import Bind, Decide
    from mlgo_clang.header import Header

NATIVE_VERSION = 2
"""To be changed whenever the native code made of a network changes."""


CALLS = "calls:"
"""What precedes the file of a network that sees which function is called; `mlgo_clang.calls` has these."""

_CALLS_IN_THE_BOX = "-calls"
"""How the names of those in the box end."""

_IN_BUILDS = "-plain"
"""How the names of those end that a name without an ending stands for: they see clang's features alone."""


class PolicyError(Exception):
    """A policy that cannot be found, read, or used for what clang asks."""


def sees_calls(spec: str) -> bool:
    """Return whether an inlining policy, as the user names it, sees which function is called."""
    return spec.startswith(CALLS) or (":" not in spec and spec.endswith(_CALLS_IN_THE_BOX))


def inlining_policy(spec: str, level: str, compiler: Sequence[str]) -> Bind:
    """Return what decides on inlining.

    Args:
        spec: `never`, `always`, `threshold:N`, `mlp:FILE`, `inline` for the policy in the box that is made for the
            level, or the name of a policy in the box.
        level: the letters behind `-O`.
        compiler: the words that start the clang which makes native code of a network.

    Raises:
        PolicyError: there is no such policy, or it cannot be read.
    """
    name, _, argument = spec.partition(":")
    if spec in ("never", "always"):
        advice = int(spec == "always")
        return lambda _header: lambda _data, _start: advice
    if name == "threshold":
        return _threshold(argument)
    return _network(network_file(spec, level), compiler)


def eviction_policy(spec: str, level: str, compiler: Sequence[str]) -> Bind:
    """Return what decides on evictions: `first_legal`, `never_evict`, `mlp:FILE`, or the name of a policy in the box.

    Raises:
        PolicyError: there is no such policy, or it cannot be read.
    """
    if spec in ("first_legal", "never_evict"):
        return _first_legal(last_first=spec == "never_evict")
    return _network(network_file(spec, level), compiler)


def network_file(spec: str, level: str) -> str:
    """Return the file of a network.

    Raises:
        PolicyError: there is none.
    """
    kind, colon, path = spec.partition(":")
    if colon:
        if kind != "mlp":
            raise PolicyError(f"there is no policy {spec!r}; see the policies in mlgo-clang's manual, docs/deploy.md")
        path = os.path.abspath(os.path.expanduser(path))
    else:
        path = os.path.join(_box(), f"inline-o{level}" if spec == "inline" else spec)
        path += ".safetensors" if os.path.isfile(f"{path}.safetensors") else f"{_IN_BUILDS}.safetensors"
    if not os.path.isfile(path):
        raise PolicyError(f"the policy {spec!r} was to be in {path}, and there is no such file")
    return path


def _box() -> str:
    """Return the folder of the policies in the box; importing their package would take longer than a compile."""
    from importlib.util import find_spec

    spec = find_spec("mlgo_gym")
    if spec is None or spec.origin is None:
        raise PolicyError("the policies in the box are part of mlgo-gym, which is not installed")
    return os.path.join(spec.origin.removesuffix("__init__.py"), "policies", "box")


def _threshold(text: str) -> Bind:
    try:
        threshold = float(text or 0)
    except ValueError:
        raise PolicyError(f"threshold takes a number, found {text!r}; write it as in threshold:20") from None

    def bind(header: Header) -> Decide:
        tensor = header.tensors.get("cost_estimate")
        if tensor is None or tensor.type != "int64_t":
            raise PolicyError("threshold wants the feature cost_estimate, and this clang has none")
        offset = tensor.offset
        unpack = struct.Struct("<q").unpack_from
        return lambda data, start: int(unpack(data, start + offset)[0] < threshold)

    return bind


def _first_legal(*, last_first: bool) -> Bind:
    def bind(header: Header) -> Decide:
        mask = header.tensors.get("mask")
        if mask is None or mask.type != "int64_t":
            raise PolicyError("evictions have a mask, and this clang's have none")
        offset, last = mask.offset, mask.count - 1
        unpack = struct.Struct(f"<{mask.count}q").unpack_from

        def decide(data: bytes, start: int) -> int:
            legal: tuple[int, ...] = unpack(data, start + offset)
            return last if last_first and legal[last] else legal.index(1)

        return decide

    return bind


def _network(path: str, compiler: Sequence[str]) -> Bind:
    status = os.stat(path)
    name = "-".join(f"{part:x}" for part in (NATIVE_VERSION, status.st_dev, status.st_ino, status.st_size))
    library = os.path.join(cache_folder(), "mlgo-clang", f"{name}-{status.st_mtime_ns:x}.so")
    if not os.path.isfile(library):
        _build_native_library(path, library, compiler)
    import ctypes

    try:
        native = ctypes.CDLL(library)
    except OSError as error:
        raise PolicyError(f"the native code of {path} cannot be loaded: {error}; remove {library}") from error
    native.mlgo_decide.restype = ctypes.c_int64
    native.mlgo_decide.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
    wanted = ctypes.c_char_p.in_dll(native, "mlgo_inputs").value or b""
    choices = ctypes.c_int32.in_dll(native, "mlgo_choices").value

    def bind(header: Header) -> Decide:
        mask = header.tensors.get("mask")
        if choices != (mask.count if mask is not None else 0):
            raise PolicyError(
                f"{path} chooses among {choices or 'no and yes'}, and clang asks for one of "
                f"{mask.count if mask is not None else 'no and yes'}; it is a policy for something else"
            )
        offsets = [_offset(header, name) for name in wanted.decode().split()]
        table = (ctypes.c_int32 * len(offsets))(*offsets)
        decide = native.mlgo_decide
        return lambda data, start: int(decide(data, start, table))

    return bind


def _build_native_library(network: str, library: str, compiler: Sequence[str]) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "mlgo_gym.deploy.native_library", network, library, *compiler]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode != 0:
        raise PolicyError(result.stderr.strip() or f"native code of {network} was to be made, and was not")


def _offset(header: Header, name: str) -> int:
    """Return where an input, `NAME` or `NAME[COLUMN]`, is in a question; the complement of that where it is a float."""
    feature, _, column = name.partition("[")
    tensor = header.tensors.get(feature)
    number = int(column.removesuffix("]") or 0)
    if tensor is None or tensor.type not in ("int64_t", "float") or number >= tensor.count:
        raise PolicyError(
            f"the policy wants the feature {name}, and this clang has {', '.join(header.tensors)}; use the clang that "
            "it was trained with"
        )
    if tensor.type == "float":
        return ~(tensor.offset + number * 4)
    return tensor.offset + number * 8
