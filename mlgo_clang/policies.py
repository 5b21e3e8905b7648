"""Policies of `mlgo-clang`: rules, and the files of networks."""

from __future__ import annotations

import os
import struct

from mlgo_clang.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.channel import Bind, Decide, Header
    from mlgo_clang.native import NativeNetwork


def inlining_rule(policy: str) -> Bind | None:
    """Return the rule that a policy names: `never`, `always` or `threshold:N`; None for a policy in a file."""
    name, _, argument = policy.partition(":")
    if policy in ("never", "always"):
        advice = int(policy == "always")
        return lambda _header: lambda _data, _start: advice
    return _threshold(argument) if name == "threshold" else None


def native_policy(policy: str, compiler: Sequence[str], link_facts: str = "") -> NativeNetwork:
    """Return the native code of a policy in a file, which the clang of these words builds."""
    from mlgo_clang.native import NativeNetwork

    return NativeNetwork(network_file(policy), compiler, link_facts)


def network_file(policy: str) -> str:
    """Return the file of `mlp:FILE`, `rule:FILE` or a bundled policy; raise PolicyError if there is none."""
    kind, colon, path = policy.partition(":")
    if colon:
        if kind not in ("mlp", "rule"):
            raise PolicyError(
                f"expected mlp:FILE, rule:FILE, threshold:N or a policy's name, got {policy!r}; see docs/how_to/ship.md"
            )
        if kind == "rule" and not path.endswith(".rule"):
            raise PolicyError(f"expected a rule's file with the suffix .rule, got {path!r}; rename it")
        path = os.path.abspath(os.path.expanduser(path))
    else:
        path = os.path.join(_bundled_networks(), policy)
        path += ".rule" if os.path.isfile(f"{path}.rule") else ".safetensors"
    if not os.path.isfile(path):
        raise PolicyError(f"expected the file of a policy, got {policy!r}, and there is no {path}; use last-call")
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
