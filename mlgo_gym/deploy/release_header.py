"""A policy as the class that LLVM's release mode compiles in, with our own forward pass instead of TensorFlow's.

LLVM's build takes it with `-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=`: see
llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

import re
from importlib.resources import files

from mlgo_gym.deploy.clangs_choice import ClangsChoice, clangs_choice
from mlgo_gym.deploy.decision_code import DecisionCode

CLASS_NAME = "InlinerSizeModel"
"""The class that llvm/lib/Analysis/MLInlineAdvisor.cpp looks for in namespace `llvm`."""


def release_header(policy: DecisionCode, level: str | None = None) -> str:
    """Return the header, which needs no object and no library beside it.

    Clang's own decision is not among what release mode computes. Where the policy reads it, the class takes it from
    LLVM if that has it after all, and else from the estimated cost.

    Args:
        policy: what decides.
        level: `Oz` or `Os`, for a policy outside the box that reads clang's decision.

    Raises:
        PolicyError: it reads clang's decision, and there is no level.
    """
    choice = clangs_choice(policy.name, policy.features, level)
    features = list(policy.features)
    if choice is not None and choice.of not in features:
        features.append(choice.of)
    values = {
        "NAME": policy.title,
        "CLASS": CLASS_NAME,
        "POLICY": policy.code,
        "FEATURES": ", ".join([*(f'"feed_{name}"' for name in features), '""']),
        "COUNT": str(len(features)),
        "DEFAULT": str(features.index(choice.feature) if choice is not None else -1),
        "KNOW_DEFAULT": _know_default(features, choice),
    }
    template = (files("mlgo_gym.deploy") / "templates" / "release_header.h").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def _know_default(features: list[str], choice: ClangsChoice | None) -> str:
    """Return the statement that sets clang's own decision where LLVM does not."""
    if choice is None:
        return "(void)DefaultGiven;"
    place, of = features.index(choice.feature), features.index(choice.of)
    return f"if (!DefaultGiven) // {choice}\n      Features[{place}] = Features[{of}] < {choice.below};"
