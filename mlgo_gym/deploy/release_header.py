"""A policy as the class that LLVM's release mode compiles in, with our own forward pass instead of TensorFlow's.

LLVM's build takes it with `-DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=`: see
llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

import re
from importlib.resources import files

from mlgo_gym.deploy.decision_code import DEFAULT, DecisionCode
from mlgo_gym.errors import PolicyError

CLASS_NAME = "InlinerSizeModel"
"""The class that llvm/lib/Analysis/MLInlineAdvisor.cpp looks for in namespace `llvm`."""


def release_header(policy: DecisionCode) -> str:
    """Return the header, which needs no object and no library beside it.

    Args:
        policy: what decides.

    Raises:
        PolicyError: the policy reads clang's own decision, which release mode does not have.
    """
    if DEFAULT in policy.features:
        raise PolicyError(
            f"the policy {policy.name} reads {DEFAULT}, and LLVM's release mode does not compute that; export a "
            "plugin, or train a policy without that feature"
        )
    values = {
        "NAME": policy.name,
        "CLASS": CLASS_NAME,
        "POLICY": policy.code,
        "FEATURES": ", ".join([*(f'"feed_{name}"' for name in policy.features), '""']),
        "COUNT": str(len(policy.features)),
    }
    template = (files("mlgo_gym.deploy") / "templates" / "release_header.h").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)
