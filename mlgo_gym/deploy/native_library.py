"""Builds a network or a rule as a shared library for `mlgo-clang`, with the underlying clang.

`python -m mlgo_gym.deploy.native_library NETWORK FOLDER COMPILER…` builds one in the folder and prints its path. Its
name is a hash of the source and the compiler. The library defines:

| name | contents |
|---|---|
| `mlgo_inputs` | names of the features, separated by blanks |
| `mlgo_choices` | length of the mask for a network with more than two outputs, as for evictions; 0 for 0 or 1 |
| `mlgo_callee_features` | names of the callee features, separated by blanks; empty if the network uses none |
| `mlgo_decide` | the decision about an observation, given the offset of each input; a complement means a `float` |
| `mlgo_channel…` | functions that answer a whole channel |
| `mlgo_prediction…` | functions that compute callee features |

Floats are made finite as an environment makes them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mlgo_clang.errors import exit_status_of
from mlgo_gym.cache import key_of
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, callee_prediction_code, uses_callee_features
from mlgo_gym.deploy.c_code import (
    FLAGS,
    eviction_code,
    fill_template,
    forward_pass,
    network_decision_code,
    rule_decision_code,
)
from mlgo_gym.deploy.exports import EVICTION_COLUMNS, output_of
from mlgo_gym.policies.mlp import COLUMN_FEATURES, decides_evictions
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.rules import RULE_SUFFIX, RuleText
from mlgo_gym.storage.temporary_folders import process_folder

_ACTION_MASK = "action_mask["


def _library_code(path: Path) -> str:
    if path.suffix == RULE_SUFFIX:
        rule = RuleText.load(path)
        code = rule_decision_code(path.stem, rule.features, rule.code).code
        return _fill(code, rule.features, 0, rule.features)
    return _network_code(Network.load(path), path.name)


def _network_code(network: Network, name: str) -> str:
    inputs = [
        feature.removeprefix("action_") if feature.startswith(_ACTION_MASK) else feature for feature in network.features
    ]
    choices = network.outputs if network.outputs > 2 else 0
    if decides_evictions(network):
        choices = EVICTION_COLUMNS
        inputs = [f"{feature}[{column}]" for column in range(choices) for feature in COLUMN_FEATURES]
        inputs.append("progress")
        policy = "#define MLGO_DECIDES\n" + eviction_code(network)
    elif choices:
        policy = forward_pass(network)
    else:
        policy = network_decision_code(name, network).code
    return _fill(policy, inputs, choices, network.features)


def _fill(policy: str, inputs: Sequence[str], choices: int, features: Sequence[str]) -> str:
    values = {
        "POLICY": policy,
        "INPUTS": " ".join([*inputs, *(["mask"] if choices else [])]),
        "CHOICES": str(choices),
        "CALLEE_FEATURES": " ".join(CALLEE_FEATURES if uses_callee_features(features) else ()),
        "COUNT": str(len(inputs)),
        "CHANNEL": callee_prediction_code() + fill_template("channel.c", {}),
    }
    return fill_template("native_library.c", values)


def build_native_library(network: Path, output: Path, compiler: Sequence[str]) -> Path:
    """Build the library of a file of a network or a rule in a folder, complete or not at all, and return its path.

    The words `compiler` start the clang that builds it. It uses the libm of the process that loads it, which every
    Python has.

    Raises:
        PolicyError: there is no such policy.
        ToolchainError: the clang cannot build a shared library.
    """
    code = _library_code(network)
    program = Path(compiler[0]).stat()
    identity = (*compiler, *FLAGS, program.st_dev, program.st_ino, program.st_size, program.st_mtime_ns)
    library = output / f"{key_of(code, *identity)[:32]}.so"
    if library.is_file():
        return library
    output.mkdir(parents=True, exist_ok=True)
    with process_folder(output, ".build-") as folder:
        source, built = folder / "policy.c", folder / "policy.so"
        source.write_text(code, encoding="ascii")
        output_of([*compiler, *FLAGS, "-w", "-fPIC", "-x", "c", "-c", str(source), "-o", f"{folder}/policy.o"])
        # The bundled compiler contains its linker; others use the machine's.
        linker = [compiler[0], "ld.lld"] if Path(compiler[0]).name == "zig" else compiler
        output_of([*linker, "-shared", "-nostdlib", f"{folder}/policy.o", "-o", str(built)])
        built.replace(library)
    return library


def main(arguments: Sequence[str]) -> int:
    """Build a library and print its path; return the exit status."""
    network, output, *compiler = arguments
    # `mlgo-clang` reads the path.
    return exit_status_of(lambda: print(build_native_library(Path(network), Path(output), compiler)))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
