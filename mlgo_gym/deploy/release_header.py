"""A policy as the class that LLVM's release mode compiles in, without TensorFlow.

LLVM's build takes the header with `-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=`, or `…_REGALLOCEVICTMODEL=` for
evictions: see llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

from mlgo_gym.deploy.decision_code import EVICTION_INTEGERS, DecisionCode, comment_text, eviction_code
from mlgo_gym.deploy.inlining_default import default_rule
from mlgo_gym.deploy.network_code import fill_template
from mlgo_gym.policies.eviction import COLUMN_FEATURES
from mlgo_gym.policies.network import Network


def release_header(policy: DecisionCode, level: str | None = None) -> str:
    """Return the header of an inlining policy, which needs no object and no library.

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
        "FEATURES": _names(features),
        "COUNT": str(len(features)),
        "DEFAULT": "-1",
        "SET_DEFAULT": "(void)DefaultGiven;",
    }
    if rule is not None:
        place, cost = features.index(rule.feature), features.index(rule.cost)
        replacement = f"Features[{place}] = Features[{cost}] < {rule.threshold};"
        values |= {"DEFAULT": str(place), "SET_DEFAULT": f"if (!DefaultGiven) // {rule}\n      {replacement}"}
    return fill_template(
        "release_header.h",
        {
            "NAME": comment_text(policy.name),
            "KIND": "inlining",
            "MODEL": "INLINERSIZEMODEL",
            "FLAGS": "-Oz -mllvm -enable-ml-inliner=release",
            "POLICY": policy.code,
            "CLASS": fill_template("release_inlining.h", values),
        },
    )


def eviction_header(name: str, network: Network) -> str:
    """Return the header of a network for evictions, which needs no object and no library."""
    values = {
        "FEATURES": _names([*COLUMN_FEATURES, "progress", "mask"]),
        "FLOATS": ", ".join("false" if feature in EVICTION_INTEGERS else "true" for feature in COLUMN_FEATURES),
    }
    return fill_template(
        "release_header.h",
        {
            "NAME": comment_text(name),
            "KIND": "evictions",
            "MODEL": "REGALLOCEVICTMODEL",
            "FLAGS": "-O2 -mllvm -regalloc-enable-advisor=release",
            "POLICY": f"namespace {{\n{eviction_code(network)}}} // namespace",
            "CLASS": fill_template("release_evictions.h", values),
        },
    )


def _names(features: list[str]) -> str:
    return ", ".join([*(f'"feed_{name}"' for name in features), '""'])
