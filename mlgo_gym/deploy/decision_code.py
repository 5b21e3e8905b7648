"""An inlining policy as C: the features it reads, and a function that says yes or no.

This is all that is exported of a policy; each way into a compiler puts its own few lines around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.deploy.network_code import forward_pass
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import Network

_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=~-]")

DEFAULT = "inlining_default"
"""The feature that is clang's own decision; LLVM has it only in interactive mode."""

DECLARATIONS = """#ifdef __cplusplus
#include <math.h>
#else
double log1p(double);
double tanh(double);
double expm1(double);
float copysignf(float, float);
#endif
"""
"""What the code of a network takes from libm."""


@dataclass(frozen=True, slots=True)
class DecisionCode:
    """An inlining policy as C.

    Attributes:
        name: what it is called.
        features: the names of the raw features that it reads, in order.
        code: C that is also C++: it defines `static int mlgo_yes(const float *features)`, and as C needs no header.
    """

    name: str
    features: tuple[str, ...]
    code: str

    @property
    def title(self) -> str:
        """The name as it can stand in a comment and in a text of a program: it may be that of somebody else's file."""
        return _UNSAFE.sub("_", self.name)


def decision_code(spec: str, network: Path | None = None) -> DecisionCode:
    """Return the code of a policy.

    Args:
        spec: `default`, `never`, `always` or `threshold:N`; anything else if `network` is given.
        network: the file of a network.

    Raises:
        MissingExtraError: safetensors is not installed.
        PolicyError: there is no such policy, or its answers are not yes and no.
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
    """Return the code of a network: a single output is the logit of yes; of two the larger decides, and a tie means no.

    Args:
        name: what it is called.
        network: the network.

    Raises:
        PolicyError: the network's answers are not yes and no.
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
    return DecisionCode(name, network.features, DECLARATIONS + forward_pass(network) + "\n".join(yes))
