"""The policy of an export: its network, or C code of its decision; and the file that the export writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.deploy.network_code import fill_template, forward_pass
from mlgo_gym.deploy.network_graph import check_outputs
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.eviction import COLUMN_FEATURES, decides_evictions
from mlgo_gym.policies.model_files import bundled_file, or_use_fast
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.rule import RuleText, is_rule, rule_file
from mlgo_gym.storage.cache import write_atomically

EVICTION_COLUMNS = 33
"""Columns of LLVM's eviction advisor: `MaxInterferences` and the candidate (lib/CodeGen/MLRegAllocEvictAdvisor.cpp)."""

EVICTION_INTEGERS = frozenset({"is_free", "is_hint", "is_local", "max_stage", "min_stage"})
"""Features of the columns that are int64 in LLVM; the others are float (same file)."""

EVICTION_RULE = {
    "HINT": "is_hint",
    "LOCAL": "is_local",
    "BROKEN": "nr_broken_hints",
    "URGENT": "nr_urgent",
    "WEIGHT": "use_def_density",
}
"""Features of clang's own choice, by their names in `eviction.c`."""

_RULES = ("default", "never", "always", "threshold")
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=~-]")


@dataclass(frozen=True, slots=True)
class DecisionCode:
    """An inlining policy as C.

    Attributes:
        name: name of the policy.
        features: names of the raw features, in order.
        code: C that is also C++. It defines `static int mlgo_yes(const float *features)`, and as C needs no header.
    """

    name: str
    features: tuple[str, ...]
    code: str


def comment_text(name: str) -> str:
    """Return a name without characters that are unsafe in a comment or a string; it may be that of a user's file."""
    return _UNSAFE.sub("_", name)


def policy_network(policy: str, *, callee_features: bool = False, evictions: bool = False) -> Network | None:
    """Return the network of a bundled policy or of `mlp:FILE`; None for a rule.

    Args:
        policy: the policy.
        callee_features: whether the target computes callee features.
        evictions: whether the target also takes policies of evictions.

    Raises:
        PolicyError: there is no such policy, its file is no network, or the network needs callee features and the
            target does not compute them.
    """
    kind, colon, file = policy.partition(":")
    if kind in _RULES or is_rule(policy):
        return None
    if colon and kind != "mlp":
        raise PolicyError(f"expected a rule, rule:FILE, mlp:FILE or a bundled policy, got {policy!r}")
    network = Network.load(Path(file).expanduser() if colon else bundled_file(policy))
    if decides_evictions(network) and not evictions:
        raise PolicyError(
            f"expected a policy of inlining, got {policy}; use it with `mlgo-clang --mlgo-eviction-policy={policy}`, "
            "or export it with `mlgo-gym export llvm-header` or `mlgo-gym export tflite`"
        )
    if not callee_features:
        _check_features(policy, network.features)
    return network


def _check_features(policy: str, features: Iterable[str]) -> None:
    if uses_callee_features(features):
        raise PolicyError(
            f"{policy} needs callee features, which LLVM does not compute; export it with `mlgo-gym export plugin`"
            f"{or_use_fast(policy)}"
        )


def exported_network(policy: str, *, evictions: bool = False) -> Network:
    """Return the network of a policy for a target in which LLVM computes the inputs.

    Raises:
        PolicyError: as in `policy_network()`, or the policy is a rule.
    """
    network = policy_network(policy, evictions=evictions)
    if network is None:
        raise PolicyError(f"expected a network, got the rule {policy!r}; use a bundled policy, or mlp:FILE")
    return network


def decision_code(policy: str, *, callee_features: bool = False) -> DecisionCode:
    """Return the code of a policy.

    Args:
        policy: a bundled policy, `mlp:FILE`, `rule:FILE`, `default`, `never`, `always` or `threshold:N`.
        callee_features: whether the export target computes callee features.

    Raises:
        PolicyError: as in `policy_network()`, or the network does not choose between 0 and 1.
    """
    network = policy_network(policy, callee_features=callee_features)
    if network is not None:
        return network_decision_code(policy, network)
    if is_rule(policy):
        rule = RuleText.load(rule_file(policy))
        if not callee_features:
            _check_features(policy, rule.features)
        return rule_decision_code(policy, rule.features, rule.code)
    name, _, argument = policy.partition(":")
    rules: dict[str, tuple[str, tuple[str, ...]]] = {
        "never": ("0", ()),
        "always": ("1", ()),
        "default": ("features[0] > 0", (INLINING_DEFAULT,)),
    }
    if name == "threshold":
        try:
            number = float(argument or 0)
        except ValueError:
            raise PolicyError(f"expected threshold:NUMBER, got {policy!r}; write for instance threshold:20") from None
        rules[policy] = f"(double)features[0] < {number!r}", ("cost_estimate",)
    if policy not in rules:
        raise PolicyError(f"the policy {name!r} takes no argument, got {argument!r}; remove it")
    expression, features = rules[policy]
    return rule_decision_code(policy, features, expression)


def rule_decision_code(name: str, features: tuple[str, ...], expression: str) -> DecisionCode:
    """Return the code of a rule: an expression of C on `const float *features`."""
    code = f"static int mlgo_yes(const float *features) {{\n  (void)features;\n  return {expression};\n}}\n"
    return DecisionCode(name, features, code)


def network_decision_code(name: str, network: Network) -> DecisionCode:
    """Return the code of a network's decision: output > 0 for one output; for two the larger, and 0 for equal ones.

    Raises:
        PolicyError: the network does not choose between 0 and 1.
    """
    check_outputs(network)
    decides = "outputs[0] > 0" if network.outputs == 1 else "outputs[1] > outputs[0]"
    yes = f"""static int mlgo_yes(const float *features) {{
  float outputs[MLGO_OUTPUTS];
  mlgo_forward(features, outputs);
  return {decides};
}}
"""
    return DecisionCode(name, network.features, forward_pass(network) + yes)


def eviction_code(network: Network) -> str:
    """Return C (and C++) of a network of `EvictionPolicy`, which defines `mlgo_decide`.

    `long long mlgo_decide(const char *data, long long start, const int *offsets)` returns the column. The offsets are
    those of each feature of each column, of `progress` and of `mask` from `data + start`; a complement means a `float`.
    """
    values = {name: str(COLUMN_FEATURES.index(feature)) for name, feature in EVICTION_RULE.items()}
    values |= {"FORWARD": forward_pass(network), "COLUMNS": str(EVICTION_COLUMNS), "EACH": str(len(COLUMN_FEATURES))}
    return fill_template("eviction.c", values)


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Raise an OSError of the block as the `MlgoError` of an export to `output`."""
    try:
        yield
    except OSError as error:
        raise MlgoError(f"the export to {output} failed: {error}; choose another path") from error


def write_export(output: Path, data: bytes) -> None:
    """Write an exported file, all of it or nothing, or raise an MlgoError."""
    with writing(output):
        write_atomically(output, data)
