"""Policies as C: the decision of `mlgo-clang`, of the pass plugin, and of LLVM's release mode.

The C of a network computes what `Network` computes, operation by operation: float32, sums from the first input to the
last, nothing fused; logarithms and tanh in double precision, then rounded. Both decide alike to the last bit.

`python -m mlgo_gym.deploy.c_code POLICY COMPILER…` builds a shared library for `mlgo-clang` with the underlying clang,
in the cache folder, and prints its path. The library defines:

| name | contents |
|---|---|
| `mlgo_inputs` | names of the features, separated by blanks |
| `mlgo_callee_features` | names of the callee features, separated by blanks; empty if the network uses none |
| `mlgo_decide` | the decision about an observation, given the offset of each input; a complement means a `float` |
| `mlgo_channel…` | functions that answer a whole channel |
| `mlgo_prediction…` | functions that compute callee features |

Floats are made finite as an environment makes them.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mlgo_clang.channel import threshold_of
from mlgo_clang.errors import exit_status_of
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, uses_callee_features
from mlgo_gym.compiler.inlining_output import callee_prediction_code
from mlgo_gym.compiler.native_library import build_library
from mlgo_gym.deploy.exports import COST, check_features, default_threshold, policy_network, replacement_text
from mlgo_gym.deploy.network_graph import Binary, check_outputs, forward
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.loading import is_rule, policy_file
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.rules import RULE_SUFFIX, RuleText

_BINARY = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "minimum": "{0} < {1} ? {0} : {1}",
    "maximum": "{0} > {1} ? {0} : {1}",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=~-]")


@dataclass(frozen=True, slots=True)
class DecisionCode:
    """An inlining policy as C.

    Attributes:
        features: names of the raw features, in order.
        code: C that is also C++. It defines `static int mlgo_yes(const float *features)`, and as C needs no header.
        decision: the expression of the decision in the plugin; another needs LLVM's headers.
    """

    name: str
    features: tuple[str, ...]
    code: str
    decision: str = "mlgo_yes(Values)"


def comment_text(name: str) -> str:
    """Return a name without characters that are unsafe in a comment or a string; it may be that of a user's file."""
    return _UNSAFE.sub("_", name)


def fill_template(name: str, values: Mapping[str, str]) -> str:
    """Return a file of the folder `templates` with each `@NAME@` replaced."""
    template = (files("mlgo_gym.deploy") / "templates" / name).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], template)


def decision_code(policy: str, *, callee_features: bool = False) -> DecisionCode:
    """Return the code of a bundled policy, `mlp:FILE`, `rule:FILE`, `default`, `never`, `always` or `threshold:N`.

    Raises `PolicyError` as `policy_network()` does, and if a network does not choose between 0 and 1.
    """
    if (network := policy_network(policy)) is not None:
        code = network_decision_code(policy, network)
    elif is_rule(policy):
        rule = RuleText.load(policy_file(policy))
        code = rule_decision_code(policy, rule)
    else:
        name, _, argument = policy.partition(":")
        conditions = {"never": "1 < 0", "always": "0 < 1", "default": f"{INLINING_DEFAULT} > 0"}
        if name == "threshold":
            conditions[policy] = f"{COST} < {threshold_of(argument)!r}"
        if policy not in conditions:
            raise PolicyError(f"the policy {name!r} takes no argument, got {argument!r}; remove it")
        rule = RuleText.parse(conditions[policy], policy)
        code = rule_decision_code(policy, rule)
    if not callee_features:
        check_features(policy, code.features)
    return code


def rule_decision_code(name: str, rule: RuleText) -> DecisionCode:
    """Return the code of a rule: an expression of C on `const float *features`."""
    code = f"static int mlgo_yes(const float *features) {{\n  (void)features;\n  return {rule.code};\n}}\n"
    return DecisionCode(name, rule.features, code)


def network_decision_code(name: str, network: Network) -> DecisionCode:
    """Return the code of a network's decision: output > 0 for one output; for two the larger, and 0 for equal ones.

    Raises `PolicyError` if the network does not choose between 0 and 1.
    """
    check_outputs(network)
    graph = _Graph()
    outputs, _ = forward(graph, network, ("features", len(network.features)))
    decision = f"{outputs}[0] > 0" if network.outputs == 1 else f"{outputs}[1] > {outputs}[0]"
    values = {"TABLES": "".join(graph.tables), "STATEMENTS": "".join(graph.statements), "DECISION": decision}
    return DecisionCode(name, network.features, fill_template("network.c", values))


class _Graph:
    """Statements of C under construction; a tensor is an array's name and length, and one element broadcasts."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.statements: list[str] = []

    def constant(self, values: npt.NDArray[np.float32]) -> tuple[str, int]:
        name = f"mlgo_table{len(self.tables)}"
        self.tables.append(f"static const float {name}[] = {{{', '.join(map(_number, values.ravel()))}}};\n")
        return name, values.size

    def _loop(self, length: int, expression: str) -> tuple[str, int]:
        name = f"v{len(self.statements)}"
        loop = f"for (int i = 0; i < {length}; ++i) {name}[i] = {expression};"
        self.statements.append(f"  float {name}[{length}];\n  {loop}\n")
        return name, length

    def binary(self, operation: Binary, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
        operands = (f"{name}[{'i' if length > 1 else 0}]" for name, length in (left, right))
        return self._loop(max(left[1], right[1]), _BINARY[operation].format(*operands))

    def signed_log(self, values: tuple[str, int]) -> tuple[str, int]:
        element = f"{values[0]}[i]"
        size = f"({element} < 0 ? -{element} : {element})"
        return self._loop(values[1], f"copysignf((float)log1p((double){size}), {element})")

    def product(self, values: tuple[str, int], weight: npt.NDArray[np.float32]) -> tuple[str, int]:
        table, _ = self.constant(weight)
        name, (inputs, outputs) = f"v{len(self.statements)}", weight.shape
        call = f"mlgo_product({values[0]}, {table}, {inputs}, {outputs}, {name});"
        self.statements.append(f"  float {name}[{outputs}];\n  {call}\n")
        return name, outputs

    def tanh(self, values: tuple[str, int]) -> tuple[str, int]:
        return self._loop(values[1], f"(float)tanh((double){values[0]}[i])")


def _number(value: np.float32) -> str:
    """Return an exact C literal: nine digits distinguish any two float32."""
    text = f"{float(value):.9g}"
    return f"{text}f" if any(character in text for character in ".en") else f"{text}.0f"


def release_header(policy: DecisionCode, level: str | None = None) -> str:
    """Return an inlining policy as the class that LLVM's release mode compiles in, without TensorFlow or an object.

    LLVM's build takes the header with `-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=`
    (llvm/cmake/modules/TensorFlowCompile.cmake). Release mode does not compute `inlining_default`. For a
    policy that uses it, the class computes the feature from the estimated cost, unless an LLVM supplies it after all;
    its level is `Oz` or `Os`. Raises `PolicyError` if the policy uses `inlining_default`, and there is no level.
    """
    threshold = default_threshold(policy.name, policy.features, level)
    features = list(policy.features)
    if threshold is not None and COST not in features:
        features.append(COST)
    values = {
        "FEATURES": ", ".join([*(f'"feed_{name}"' for name in features), '""']),
        "COUNT": str(len(features)),
        "DEFAULT": "-1",
        "SET_DEFAULT": "(void)DefaultGiven;",
    }
    if threshold is not None:
        place, cost = features.index(INLINING_DEFAULT), features.index(COST)
        set_default = f"// {replacement_text(threshold)}\n      Features[{place}] = Features[{cost}] < {threshold};"
        values |= {"DEFAULT": str(place), "SET_DEFAULT": f"if (!DefaultGiven) {set_default}"}
    values |= {"NAME": comment_text(policy.name), "POLICY": policy.code}
    return fill_template("release_header.h", values)


def _library_code(path: Path) -> str:
    if path.suffix == RULE_SUFFIX:
        policy = rule_decision_code(path.stem, RuleText.load(path))
    else:
        policy = network_decision_code(path.name, Network.load(path))
    values = {
        "POLICY": policy.code,
        "INPUTS": " ".join(policy.features),
        "CALLEE_FEATURES": " ".join(CALLEE_FEATURES if uses_callee_features(policy.features) else ()),
        "COUNT": str(len(policy.features)),
        "CHANNEL": callee_prediction_code() + fill_template("channel.c", {}),
    }
    return fill_template("native_library.c", values)


def build_native_library(policy: Path, compiler: Sequence[str]) -> Path:
    """Build the library of a file of a network or a rule; arguments and errors as for `build_library()`."""
    return build_library(_library_code(policy), compiler)


def main(arguments: Sequence[str]) -> int:
    """Build a library and print its path; return the exit status."""
    network, *compiler = arguments
    # `mlgo-clang` reads the path.
    return exit_status_of(lambda: print(build_native_library(Path(network), compiler)))  # noqa: T201 - the output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
