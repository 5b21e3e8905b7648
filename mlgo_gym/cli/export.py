"""`mlgo-gym export`: a policy for compilers that know nothing of mlgo-gym."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlgo_gym.deploy.decision_code import DecisionCode

export_commands = typer.Typer(name="export", help="Policies for other compilers and tools.", no_args_is_help=True)

Policy = Annotated[
    str, typer.Option(help="A policy in the box, mlp:FILE, or a rule: default, never, always, threshold:N.")
]
Output = Annotated[Path, typer.Option(help="Where it goes.")]


def _code(policy: str) -> DecisionCode:
    from mlgo_gym.deploy.decision_code import decision_code
    from mlgo_gym.deploy.exported_policy import network_path

    return decision_code(policy, network_path(policy))


@export_commands.command("plugin")
def plugin(
    policy: Policy,
    output: Output,
    llvm_config: Annotated[str, typer.Option(help="The llvm-config of the LLVM that is to load it.")] = "llvm-config",
    compiler: Annotated[str | None, typer.Option(help="The C++ compiler; that LLVM's clang++, or c++.")] = None,
    source: Annotated[Path | None, typer.Option(help="Where to keep the C++ of the plugin.")] = None,
) -> None:
    """Build a pass plugin with a policy in it, for a distribution's clang, opt and lld.

    Then: clang-22 -Oz -fpass-plugin=./OUTPUT …, opt-22 -load-pass-plugin=…, or
    ld.lld-22 --load-pass-plugin=… for a link-time optimisation.
    """
    from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_code

    llvm = installed_llvm(llvm_config)
    code = _code(policy)
    if source is not None:
        source.write_text(plugin_code(code, llvm), encoding="utf-8")
    build_plugin(code, llvm, output, compiler=compiler)
    typer.echo(f"{output}: {policy} for LLVM {llvm.major}, {output.stat().st_size} bytes")


@export_commands.command("llvm-header")
def llvm_header(policy: Policy, output: Output) -> None:
    """Write the class that LLVM's release mode compiles in, without TensorFlow.

    LLVM's build takes it with -DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=.
    """
    from mlgo_gym.deploy.release_header import release_header
    from mlgo_gym.storage.cache import write_atomically

    write_atomically(output, release_header(_code(policy)).encode())
    typer.echo(f"{output}: {policy}, {output.stat().st_size} bytes")
