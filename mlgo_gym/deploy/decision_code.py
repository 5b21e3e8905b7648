"""An inlining policy as C: its features, and a function that says no or yes.

This is all that is exported of a policy; each way into a compiler puts its own few lines around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.deploy.network_code import forward_pass
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import Network

DEFAULT = "inlining_default"
"""The feature that is clang's own decision; LLVM knows it in interactive mode alone."""

_DECLARATIONS = """#ifdef __cplusplus
#include <math.h>
#else
double log1p(double);
double tanh(double);
double expm1(double);
float copysignf(float, float);
#endif
"""


@dataclass(frozen=True, slots=True)
class DecisionCode:
    """An inlining policy as C.

    Attributes:
        name: what it is called.
        features: the names of the raw features that it reads, in order.
        code: C and C++ that defines `static int mlgo_yes(const float *features)` and, as C, needs no header.
    """

    name: str
    features: tuple[str, ...]
    code: str


def decision_code(spec: str, network: Path | None = None) -> DecisionCode:
    """Return the code of a policy.

    Args:
        spec: `default`, `never`, `always`, `threshold:N`, or anything else if `network` is given.
        network: the file of a network.

    Raises:
        MissingExtraError: safetensors is not installed.
        PolicyError: there is no such policy, or it does not say no or yes.
    """
    if network is not None:
        return network_decision_code(spec, Network.load(network))
    name, _, argument = spec.partition(":")
    rules = {"never": ("0", ()), "always": ("1", ()), "default": ("features[0] > 0", (DEFAULT,))}
    if spec in rules:
        expression, features = rules[spec]
    elif name == "threshold":
        try:
            number = float(argument or 0)
        except ValueError:
            raise PolicyError(f"threshold takes a number, found {argument!r}; write it as in threshold:20") from None
        expression, features = f"(double)features[0] < {number!r}", ("cost_estimate",)
    else:
        raise PolicyError(f"a rule, a network (mlp:FILE) or a policy in the box was wanted, found {spec!r}")
    code = f"static int mlgo_yes(const float *features) {{\n  (void)features;\n  return {expression};\n}}\n"
    return DecisionCode(spec, tuple(features), code)


def network_decision_code(name: str, network: Network) -> DecisionCode:
    """Return the code of a network: one output is the logit of yes, of two the larger decides, and a tie is a no.

    Args:
        name: what it is called.
        network: the network.

    Raises:
        PolicyError: the network does not say no or yes.
    """
    decisions = {1: "outputs[0] > 0", 2: "outputs[1] > outputs[0]"}
    if network.outputs not in decisions:
        raise PolicyError(f"a network that says no or yes was wanted, and this one has {network.outputs} outputs")
    yes = [
        "static int mlgo_yes(const float *features) {",
        "  float outputs[MLGO_OUTPUTS];",
        "  mlgo_forward(features, outputs);",
        f"  return {decisions[network.outputs]};",
        "}",
        "",
    ]
    return DecisionCode(name, network.features, _DECLARATIONS + forward_pass(network) + "\n".join(yes))
