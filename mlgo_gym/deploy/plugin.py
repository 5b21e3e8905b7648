"""A policy as a pass plugin for a distribution's clang: `clang-22 -Oz -fpass-plugin=./libmlgo_inline.so …`.

A rule becomes one C++ function on LLVM's own data structures: to read, review and propose.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mlgo_clang.protocol import CALLEE_SOURCES
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, uses_callee_features
from mlgo_gym.compiler.native_library import FLAGS, output_of
from mlgo_gym.deploy.c_code import DecisionCode, comment_text, decision_code, fill_template
from mlgo_gym.deploy.exports import writing
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.loading import is_rule, policy_file
from mlgo_gym.policies.rules import RuleText
from mlgo_gym.storage.temporary_folders import process_folder

OLDEST = 19
"""The first LLVM with the advisor class that the plugin derives from."""

_FEATURE_MAPS = "llvm/Analysis/InlineModelFeatureMaps.h"
_FEATURE = re.compile(r"^\s*M\(\s*\w+,\s*\{1\},\s*(\w+),", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstalledLlvm:
    """An LLVM to build against: its major version, folders of headers and of programs, and whether it has RTTI."""

    major: int
    includes: Path
    programs: Path
    rtti: bool

    def features(self) -> tuple[str, ...]:
        """Return the names of the features of its inlining advisor, in no particular order."""
        try:
            return tuple(_FEATURE.findall((self.includes / _FEATURE_MAPS).read_text(encoding="utf-8")))
        except OSError as error:
            raise ToolchainError(
                f"the headers of LLVM {self.major} are missing: {error}; install llvm-{self.major}-dev"
            ) from error


def installed_llvm(llvm_config: str) -> InstalledLlvm:
    """Return the LLVM that an `llvm-config` describes.

    Raises `ToolchainError` if there is no such program, or the LLVM is too old.
    """
    if shutil.which(llvm_config) is None:
        raise ToolchainError(
            f"expected the llvm-config of the LLVM that loads the plugin, got {llvm_config!r}, which is no program; on "
            "Debian llvm-config-22 is in llvm-22-dev"
        )
    options = ["--version", "--includedir", "--bindir", "--has-rtti"]
    version, includes, programs, rtti = (output_of([llvm_config, option]) for option in options)
    first = version.partition(".")[0]
    if not first.isdecimal():
        raise ToolchainError(f"expected an llvm-config, got {llvm_config} with the version {version[:40]!r}")
    major = int(first)
    if major < OLDEST:
        raise ToolchainError(f"expected LLVM {OLDEST} or newer for a plugin, got {version} from {llvm_config}")
    return InstalledLlvm(major, Path(includes), Path(programs), rtti == "YES")


def plugin_code(policy: DecisionCode, llvm: InstalledLlvm) -> str:
    """Return the C++ of a plugin.

    Raises `PolicyError` if this LLVM does not compute a feature of the policy, `ToolchainError` without its headers.
    """
    available = llvm.features()
    with_callees = uses_callee_features(policy.features)
    # Features that the plugin itself computes.
    own = (INLINING_DEFAULT, *CALLEE_FEATURES) if with_callees else (INLINING_DEFAULT,)
    needed = (*policy.features, *(CALLEE_SOURCES if with_callees else ()))
    if missing := [name for name in needed if name not in (*available, *own)]:
        raise PolicyError(
            f"{policy.name} uses {', '.join(missing)}, which the inlining advisor of LLVM {llvm.major} does not "
            "compute; build the plugin for the LLVM that the policy was trained with"
        )
    indices = [f"~{own.index(name)}" if name in own else f"int(FeatureIndex::{name})" for name in policy.features]
    values = {
        "NAME": comment_text(policy.name),
        "MAJOR": str(llvm.major),
        "LINKAGE": fill_template("linkage.cpp", {}) if with_callees else "",
        "POLICY": policy.code,
        "DECISION": policy.decision,
        "INDICES": ", ".join([*indices, "-1"]),
        "COUNT": str(len(policy.features)),
        "LEAVES_TO_CLANG": "true" if policy.name == "default" else "false",
        "USES_DEFAULT": "true" if INLINING_DEFAULT in policy.features else "false",
        "OWN": str(len(own)),
        "FACTS": fill_template("link_facts.cpp", {}),
        "CALLEES": fill_template("callee_features.cpp", {"COUNT": str(len(CALLEE_FEATURES))}) if with_callees else "",
        "ADVISOR": "CalleeAdvisor" if with_callees else "PolicyAdvisor<PolicyRunner>",
    }
    return fill_template("inline_plugin.cpp", values)


def build_plugin(policy: DecisionCode, llvm: InstalledLlvm, output: Path, *, compiler: str | None = None) -> None:
    """Build a plugin, complete or not at all.

    The C++ compiler has the standard library that this LLVM was built with: None uses that LLVM's `clang++`, or `c++`.
    Raises as `plugin_code()`, `ToolchainError` also for a plugin that does not compile, and `MlgoError` if the library
    cannot be written.
    """
    code = plugin_code(policy, llvm)
    program = compiler or next(filter(shutil.which, (str(llvm.programs / "clang++"), "c++")), None)
    if program is None:
        raise ToolchainError("a plugin needs a C++ compiler, and none was found; name one with --compiler")
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with process_folder(output.parent, f".{output.name}-") as folder:
            source, library = folder / "plugin.cpp", folder / "plugin.so"
            source.write_text(code, encoding="utf-8")
            flags = [*FLAGS, "-std=c++17", "-fPIC", "-shared", "-w"]
            flags += [f"-I{llvm.includes}", *([] if llvm.rtti else ["-fno-rtti"])]
            output_of([program, *flags, str(source), "-o", str(library)])
            library.replace(output)


_FUNCTIONS = {
    "callee_linkage": "rankOfLinkage(Callee)",
    "caller_linkage": "rankOfLinkage(Caller)",
    "callee_comdat": "double(Callee.hasComdat())",
    "callee_unnamed": "double(Callee.getUnnamedAddr() != llvm::GlobalValue::UnnamedAddr::None)",
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

_INPUT = re.compile(r"\(double\)features\[(\d+)\]")


def plugin_decision_code(policy: str) -> DecisionCode:
    """Return the code of a policy for `plugin_code()`: of `rule:FILE` and bundled rules as a function to read.

    Errors are those of `decision_code()`.
    """
    if not is_rule(policy):
        return decision_code(policy, callee_features=True)
    rule = RuleText.load(policy_file(policy))
    names = [_FUNCTIONS.get(name) or _parameter(name) for name in rule.features]
    condition = _INPUT.sub(lambda match: names[int(match[1])], rule.code)
    functions = [name for name in _ARGUMENTS if name in condition]
    parameters = [f"const llvm::Function &{name}" for name in functions]
    values = [_ARGUMENTS[name] for name in functions]
    for index, name in enumerate(rule.features):
        if name not in _FUNCTIONS:
            parameters.append(f"double {_parameter(name)}")
            values.append(f"features[{index}]")
    texts = {
        # A condition has no backslash and no line break.
        "RULE": rule.text.replace(" or ", "\n//   or "),
        "PARAMETERS": ",\n                             ".join(parameters),
        "CONDITION": condition.replace(" || ", "\n         || "),
        "VALUES": ",\n                          ".join(values),
    }
    return DecisionCode(policy, rule.features, fill_template("rule.cpp", texts), "mlgo_yes(*Call, Values)")


def _parameter(feature: str) -> str:
    return _PARAMETERS.get(feature) or feature.title().replace("_", "")
