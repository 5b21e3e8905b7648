"""Policies of `mlgo-clang`: rules, and networks as native code."""

from __future__ import annotations

import os
import struct

from mlgo_clang.folders import cache_folder
from mlgo_clang.programs import PolicyError, run_program
from mlgo_clang.settings import BY_LEVEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.header import Header
    from mlgo_clang.interactive import Bind, Decide

NATIVE_VERSION = 3
"""Version of the native code; change it with `mlgo_gym.deploy.native_library`, and cached code is built anew."""


def inlining_rule(policy: str) -> Bind | None:
    """Return the rule that a policy names: `never`, `always` or `threshold:N`; None for a network."""
    name, _, argument = policy.partition(":")
    if policy in ("never", "always"):
        advice = int(policy == "always")
        return lambda _header: lambda _data, _start: advice
    return _threshold(argument) if name == "threshold" else None


def eviction_policy(policy: str, level: str, compiler: Sequence[str]) -> Bind:
    """Return the function of `first_legal`, `never_evict`, `mlp:FILE`, or a bundled policy for evictions."""
    if policy in ("first_legal", "never_evict"):
        return _eviction_rule(evicts=policy == "first_legal")
    return NativeNetwork(network_file(policy, level), compiler).bind


def network_file(policy: str, level: str) -> str:
    """Return the file of `mlp:FILE`, of a bundled policy, or for `inline-fast` of the fast network of a level.

    Raises:
        PolicyError: there is no such file.
    """
    kind, colon, path = policy.partition(":")
    if colon:
        if kind != "mlp":
            raise PolicyError(
                f"expected mlp:FILE, threshold:N or a policy's name, got {policy!r}; see docs/how_to/ship.md"
            )
        path = os.path.abspath(os.path.expanduser(path))
    else:
        name = f"inline-o{level}-fast" if policy == BY_LEVEL else policy
        path = os.path.join(_bundled_networks(), f"{name}.safetensors")
    if not os.path.isfile(path):
        raise PolicyError(f"the policy {policy!r} needs {path}, and there is no such file; name another policy")
    return path


def _bundled_networks() -> str:
    """Return the folder of the bundled networks; an import of their package takes longer than a compile."""
    from importlib.util import find_spec

    spec = find_spec("mlgo_gym")
    if spec is None or spec.origin is None:
        raise PolicyError("bundled policies are part of mlgo-gym, which is not installed: pip install mlgo-gym")
    return os.path.join(spec.origin.removesuffix("__init__.py"), "policies", "networks")


def _threshold(text: str) -> Bind:
    try:
        threshold = float(text or 0)
    except ValueError:
        raise PolicyError(
            f"expected threshold:NUMBER, got 'threshold:{text}'; write for instance threshold:20"
        ) from None

    def bind(header: Header) -> Decide:
        tensor = header.tensors.get("cost_estimate")
        if tensor is None or tensor.type != "int64_t":
            raise PolicyError("threshold needs the feature cost_estimate, which this clang does not compute")
        offset = tensor.offset
        unpack = struct.Struct("<q").unpack_from
        return lambda data, start: int(unpack(data, start + offset)[0] < threshold)

    return bind


def _eviction_rule(*, evicts: bool) -> Bind:
    def bind(header: Header) -> Decide:
        mask = header.tensors.get("mask")
        if mask is None or mask.type != "int64_t":
            raise PolicyError("eviction policies need the feature mask, which this clang does not compute")
        offset, last = mask.offset, mask.count - 1
        unpack = struct.Struct(f"<{mask.count}q").unpack_from

        def decide(data: bytes, start: int) -> int:
            legal: tuple[int, ...] = unpack(data, start + offset)
            return legal.index(1) if evicts or not legal[last] else last

        return decide

    return bind


class NativeNetwork:
    """A network as native code, built once and kept in the cache folder.

    Args:
        path: the network's file.
        compiler: the words that start the clang that builds the code.

    Raises:
        PolicyError: the file is no network, or its code cannot be built or loaded.

    Attributes:
        path: as given.
        callee_features: whether the network uses callee features, which `bind()` cannot supply.
    """

    __slots__ = ("_native", "callee_features", "path")

    def __init__(self, path: str, compiler: Sequence[str]) -> None:
        import ctypes

        self.path = path
        status = os.stat(path)
        name = "-".join(f"{part:x}" for part in (NATIVE_VERSION, status.st_dev, status.st_ino, status.st_size))
        library = os.path.join(cache_folder(), "mlgo-clang", f"{name}-{status.st_mtime_ns:x}.so")
        if not os.path.isfile(library):
            run_program("native_library", [path, library, *compiler])
        try:
            self._native = ctypes.CDLL(library)
        except OSError as error:
            raise PolicyError(f"the native code of {path} cannot be loaded: {error}; remove {library}") from error
        self.callee_features = bool(ctypes.c_int32.in_dll(self._native, "mlgo_callee_features").value)

    def bind(self, header: Header) -> Decide:
        """Return the function that decides.

        Raises:
            PolicyError: clang lacks a feature, or requests another kind of decision.
        """
        import ctypes

        native = self._native
        native.mlgo_decide.restype = ctypes.c_int64
        native.mlgo_decide.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
        inputs = ctypes.c_char_p.in_dll(native, "mlgo_inputs").value or b""
        choices = ctypes.c_int32.in_dll(native, "mlgo_choices").value
        mask = header.tensors.get("mask")
        if choices != (mask.count if mask is not None else 0):
            raise PolicyError(
                f"expected a network that chooses {f'one of {mask.count}' if mask is not None else '0 or 1'}, got "
                f"{self.path}, which chooses {f'one of {choices}' if choices else '0 or 1'}; use a network for "
                f"{'evictions' if mask is not None else 'inlining'}"
            )
        offsets = [_offset(header, name) for name in inputs.decode().split()]
        table = (ctypes.c_int32 * len(offsets))(*offsets)
        decide = native.mlgo_decide
        return lambda data, start: int(decide(data, start, table))


def _offset(header: Header, name: str) -> int:
    """Return the offset of an input, `NAME` or `NAME[COLUMN]`, in an observation; its complement for a float."""
    feature, _, column = name.partition("[")
    tensor = header.tensors.get(feature)
    number = int(column.removesuffix("]") or 0)
    if tensor is None or tensor.type not in ("int64_t", "float") or number >= tensor.count:
        raise PolicyError(
            f"the network needs the feature {name}, and this clang has {', '.join(header.tensors)}; use the clang "
            "that the network was trained with"
        )
    if tensor.type == "float":
        return ~(tensor.offset + number * 4)
    return tensor.offset + number * 8
