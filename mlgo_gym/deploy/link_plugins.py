"""Pass plugins of policies for the linker of an installed clang."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlgo_gym.deploy.decision_code import decision_code
from mlgo_gym.deploy.plugin import InstalledLlvm, build_plugin, installed_llvm
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain


def llvm_of(toolchain: Toolchain) -> InstalledLlvm | None:
    """Return the LLVM of an installed clang, or None without its `llvm-config` and `ld.lld`, or if it is too old."""
    programs = toolchain.binary.resolve().parent
    if not all((programs / name).exists() for name in ("llvm-config", "ld.lld")):
        return None
    try:
        return installed_llvm(str(programs / "llvm-config"))
    except ToolchainError:
        return None


def build_link_plugins(policies: Iterable[str], toolchain: Toolchain, folder: Path) -> tuple[dict[str, Path], str]:
    """Build the plugins of policies in a folder; return them by policy, and why some are missing, else nothing."""
    llvm = llvm_of(toolchain)
    if llvm is None:
        return {}, (
            f"{toolchain.command[0]} loads no plugin, so policies decide in compiles alone; for links use --clang "
            "clang-22 with lld-22 and llvm-22-dev"
        )
    plugins: dict[str, Path] = {}
    reasons = []
    for number, policy in enumerate(policies):
        path = folder / f"plugin-{number}.so"
        try:
            build_plugin(decision_code(policy, callee_features=True), llvm, path)
        except MlgoError as error:
            reasons.append(f"{policy} decides in compiles alone: {error}")
        else:
            plugins[policy] = path
    return plugins, "; ".join(reasons)
