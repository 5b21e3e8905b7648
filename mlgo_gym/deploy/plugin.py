"""A policy as a pass plugin for a distribution's clang: `clang-22 -Oz -fpass-plugin=./libmlgo_inline.so …`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from mlgo_gym.deploy.decision_code import DEFAULT, DecisionCode
from mlgo_gym.deploy.exported_file import writing
from mlgo_gym.deploy.network_code import FLAGS
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.policies.call_features import CALL_FEATURES, USED, are_of_calls
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.leftovers import own_folder

OLDEST = 19
"""The first LLVM with the advisor class that the plugin derives from."""

_FEATURE_MAPS = "llvm/Analysis/InlineModelFeatureMaps.h"
_FEATURE = re.compile(r"^\s*M\(\s*\w+,\s*\{1\},\s*(\w+),", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstalledLlvm:
    """An LLVM to build against.

    Attributes:
        major: its major version.
        includes: where its headers are.
        programs: where its programs are.
        rtti: whether it was built with run-time type information.
    """

    major: int
    includes: Path
    programs: Path
    rtti: bool

    def features(self) -> tuple[str, ...]:
        """Return the names of the features of its inlining advisor, in no particular order.

        Raises:
            ToolchainError: the header that names them is not there.
        """
        try:
            return tuple(_FEATURE.findall((self.includes / _FEATURE_MAPS).read_text(encoding="utf-8")))
        except OSError as error:
            raise ToolchainError(
                f"the headers of LLVM {self.major} were wanted: {error}; install llvm-{self.major}-dev"
            ) from error


def installed_llvm(llvm_config: str) -> InstalledLlvm:
    """Return the LLVM that an `llvm-config` describes.

    Raises:
        ToolchainError: there is no such program, or that LLVM is too old.
    """
    if shutil.which(llvm_config) is None:
        raise ToolchainError(
            f"there is no program {llvm_config!r}; name the llvm-config of the LLVM that is to load the plugin, such "
            "as llvm-config-22 (on Debian in llvm-22-dev)"
        )
    questions = ["--version", "--includedir", "--bindir", "--has-rtti"]
    version, includes, programs, rtti = (_output([llvm_config, question]) for question in questions)
    first = version.partition(".")[0]
    if not first.isdecimal():
        raise ToolchainError(
            f"{llvm_config} was to be an llvm-config, and says its version is {version[:40]!r}; name another"
        )
    major = int(first)
    if major < OLDEST:
        raise ToolchainError(f"LLVM {OLDEST} or newer was wanted for a plugin, and {llvm_config} is of {version}")
    return InstalledLlvm(major, Path(includes), Path(programs), rtti == "YES")


def plugin_code(policy: DecisionCode, llvm: InstalledLlvm) -> str:
    """Return the C++ of a plugin.

    Args:
        policy: what decides.
        llvm: the LLVM that is to load it.

    Raises:
        PolicyError: the policy reads features that this LLVM does not have.
        ToolchainError: its headers are not there.
    """
    known = llvm.features()
    follows = are_of_calls(policy.features)
    own = (DEFAULT, *CALL_FEATURES) if follows else (DEFAULT,)
    missing = [name for name in (*policy.features, *(USED if follows else ())) if name not in (*known, *own)]
    if missing:
        raise PolicyError(
            f"the policy {policy.name} reads {', '.join(missing)}, which the inlining advisor of LLVM {llvm.major} "
            "does not have; build the plugin for the LLVM that the policy was trained with"
        )
    positions = [f"~{own.index(name)}" if name in own else f"int(FeatureIndex::{name})" for name in policy.features]
    values = {
        "NAME": policy.title,
        "MAJOR": str(llvm.major),
        "POLICY": policy.code,
        "POSITIONS": ", ".join([*positions, "-1"]),
        "COUNT": str(len(policy.features)),
        "WANTS_DEFAULT": "true" if DEFAULT in policy.features else "false",
        "OWN": str(len(own)),
        "CALLS": _template("inline_calls.cpp", {"SEEN": str(len(CALL_FEATURES))}) if follows else "",
        "ADVISOR": "CallsAdvisor" if follows else "PolicyAdvisor<PolicyRunner>",
    }
    return _template("inline_plugin.cpp", values)


def _template(name: str, values: Mapping[str, str]) -> str:
    template = (files("mlgo_gym.deploy") / "templates" / name).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def build_plugin(policy: DecisionCode, llvm: InstalledLlvm, output: Path, *, compiler: str | None = None) -> None:
    """Build a plugin; the file appears complete or not at all.

    Args:
        policy: what decides.
        llvm: the LLVM that is to load it.
        output: where the library goes.
        compiler: the C++ compiler, using the standard library that this LLVM was built with. None takes that LLVM's
            `clang++`, or else `c++`.

    Raises:
        PolicyError: the policy reads features that this LLVM does not have.
        ToolchainError: its headers or a compiler are not there, or the plugin does not compile.
        MlgoError: it cannot be written there.
    """
    code = plugin_code(policy, llvm)
    found = compiler or next(filter(shutil.which, (str(llvm.programs / "clang++"), "c++")), None)
    if found is None:
        raise ToolchainError(
            "a C++ compiler was wanted to build the plugin, and there is none; name one with --compiler"
        )
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(output.parent, f".{output.name}-") as folder:
            source, library = folder / "plugin.cpp", folder / "plugin.so"
            source.write_text(code, encoding="utf-8")
            flags = [*FLAGS, "-std=c++17", "-fPIC", "-shared", "-w"]
            flags += [f"-I{llvm.includes}", *([] if llvm.rtti else ["-fno-rtti"])]
            _output([found, *flags, str(source), "-o", str(library)])
            library.replace(output)


def _output(command: Sequence[str]) -> str:
    result = run_bounded(command, writable=None, name=command[0])
    if result.returncode != 0:
        raise ToolchainError(f"{command[0]} was to succeed, and said: {result.stderr.strip()[-2000:]}")
    return result.stdout.strip()
