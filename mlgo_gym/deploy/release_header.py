"""A policy as the class that LLVM's release mode compiles in, without TensorFlow.

LLVM's build takes the header with `-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=`: see
llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

from mlgo_gym.deploy.decision_code import DecisionCode
from mlgo_gym.deploy.inlining_default import default_rule
from mlgo_gym.deploy.network_code import fill_template


def release_header(policy: DecisionCode, level: str | None = None) -> str:
    """Return the header, which needs no object and no library.

    Release mode does not compute `inlining_default`. For a policy that uses it, the class computes the feature from the
    estimated cost, unless an LLVM supplies it after all; its level is `Oz` or `Os`, or that of a bundled policy.

    Raises:
        PolicyError: the policy uses `inlining_default`, and there is no level.
    """
    rule = default_rule(policy.name, policy.features, level)
    features = list(policy.features)
    if rule is not None and rule.cost not in features:
        features.append(rule.cost)
    values = {
        "NAME": policy.title,
        "POLICY": policy.code,
        "FEATURES": ", ".join([*(f'"feed_{name}"' for name in features), '""']),
        "COUNT": str(len(features)),
        "DEFAULT": "-1",
        "SET_DEFAULT": "(void)DefaultGiven;",
    }
    if rule is not None:
        place, cost = features.index(rule.feature), features.index(rule.cost)
        replacement = f"Features[{place}] = Features[{cost}] < {rule.threshold};"
        values |= {"DEFAULT": str(place), "SET_DEFAULT": f"if (!DefaultGiven) // {rule}\n      {replacement}"}
    return fill_template("release_header.h", values)
