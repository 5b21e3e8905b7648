"""Bundled policies: trained networks that come with the package, such as `inline-oz`.

Each network is three files of `mlgo_gym/policies/networks/`: the weights (`NAME.safetensors`), the model card for
people (`NAME.md`) and the same facts for programs (`NAME.json`). A network that is added to the folder can be used at
once.

`inline-oz` and `inline-os` use callee features, `inline-oz-fast` and `inline-os-fast` use clang's features only.
`inline-oz-rust` is for crates of Rust, `inline-oz-thumbv7em` for Cortex-M4 firmware, `inline-os-riscv32imc` for RISC-V
of 32 bits, and `inline-oz-wasm32-wasi` for WebAssembly; all use callee features.
`evict` decides evictions.
"""

from __future__ import annotations

from pathlib import Path

from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies.eviction import decides_evictions
from mlgo_gym.policies.features import check_advisor, check_binary
from mlgo_gym.policies.mlp import network_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.protocol import Policy

NETWORKS = Path(__file__).with_name("networks")
"""Folder of the bundled networks."""


def bundled_policies() -> tuple[str, ...]:
    """Return the names of the bundled policies."""
    return tuple(sorted(path.stem for path in NETWORKS.glob("*.safetensors")))


def bundled_file(name: str) -> Path:
    """Return the network file of a bundled policy, or raise a PolicyError."""
    if name not in bundled_policies():
        raise PolicyError(f"expected a bundled policy, got {name!r}; use one of {', '.join(bundled_policies())}")
    return NETWORKS / f"{name}.safetensors"


def or_use_fast(name: str) -> str:
    """Return `", or use NAME-fast"`, for an error; empty if no such policy is bundled."""
    return f", or use {name}-fast" if f"{name}-fast" in bundled_policies() else ""


def bundled_policy(env: CompilerEnv, name: str) -> Policy:
    """Return a bundled policy for an environment with observations of any form.

    Raises:
        PolicyError: there is no such policy, the environment has other decisions, its compiler lacks features that the
            network uses, or the network uses callee features and the environment does not compute them.
    """
    network = Network.load(bundled_file(name))
    if name.startswith("inline-"):
        check_advisor(name, env, INLINING)
        check_binary(name, env)
    if decides_evictions(network):
        return network_policy(env, network, name)
    missing = [feature for feature in network.features if feature not in env.feature_names]
    if missing and not uses_callee_features(missing):
        raise PolicyError(
            f"{name} needs the features {', '.join(missing)}, which clang {env.toolchain.version_text} does not "
            "compute; use the bundled clang, which the policy was trained with"
        )
    return network_policy(env, network, name, advice=or_use_fast(name))
