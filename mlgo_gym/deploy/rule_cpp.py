"""A rule as one C++ function on LLVM's own data structures, inside the plugin: to read, review and propose."""

from __future__ import annotations

import re

from mlgo_gym.compiler.callee_features import MODULE_SHARE
from mlgo_gym.deploy.c_code import DecisionCode, fill_template
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.rules import RuleText, is_rule, rule_file

_FUNCTIONS = {
    "callee_linkage": "rankOfLinkage(Callee)",
    "caller_linkage": "rankOfLinkage(Caller)",
    "callee_comdat": "Callee.hasComdat()",
    "callee_unnamed": "(Callee.getUnnamedAddr() != llvm::GlobalValue::UnnamedAddr::None)",
}
"""Features that the functions themselves have, as expressions of C++."""

_PARAMETERS = {
    "cost_estimate": "Cost",
    "callee_users_left": "RemainingUses",
    "callee_last": "IsLastCall",
    "callee_kept": "KeptCalls",
}
"""Names of parameters; that of another feature is its own in LLVM's style."""

_ARGUMENTS = {"Caller": "*Call.getCaller()", "Callee": "*Call.getCalledFunction()"}
"""Parameters for the functions of a call, as in `_FUNCTIONS`."""

_FEATURE = re.compile(r"\(double\)features\[(\d+)\]")
_WHOLE = re.compile(r"(?<![\w.])(\d+)\.0\b")


def rule_cpp(policy: str) -> DecisionCode:
    """Return the code of `rule:FILE` or of a bundled rule, for `plugin_code()`.

    Raises:
        PolicyError: The policy is no rule, or its file has no condition.
    """
    if not is_rule(policy):
        raise PolicyError(f"expected last-call or rule:FILE, got {policy!r}; export it with `mlgo-gym export plugin`")
    rule = RuleText.load(rule_file(policy))
    names = [_FUNCTIONS.get(name) or _parameter(name) for name in rule.features]
    condition = _FEATURE.sub(lambda match: names[int(match[1])], _WHOLE.sub(r"\1", rule.code))
    functions = [name for name in _ARGUMENTS if name in condition]
    parameters, values = (
        [f"const llvm::Function &{name}" for name in functions],
        [_ARGUMENTS[name] for name in functions],
    )
    for index, name in enumerate(rule.features):
        if name not in _FUNCTIONS:
            kind = "double" if name == MODULE_SHARE else "int64_t"
            parameters.append(f"{kind} {_parameter(name)}")
            values.append(f"static_cast<{kind}>(features[{index}])")
    values_of = {
        # A condition has no backslash and no line break.
        "RULE": rule.text.replace(" or ", "\n//   or "),
        "PARAMETERS": ",\n                             ".join(parameters),
        "CONDITION": condition.replace(" || ", "\n         || "),
        "VALUES": ",\n                          ".join(values),
    }
    return DecisionCode(policy, rule.features, fill_template("rule.cpp", values_of), "mlgo_yes(*Call, Values)")


def _parameter(feature: str) -> str:
    return _PARAMETERS.get(feature) or feature.title().replace("_", "")
