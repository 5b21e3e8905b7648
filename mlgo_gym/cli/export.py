"""`mlgo-gym export`: a policy for compilers that know nothing of mlgo-gym."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.output import JsonOption, show

if TYPE_CHECKING:
    from mlgo_gym.deploy.clangs_choice import ClangsChoice
    from mlgo_gym.deploy.decision_code import DecisionCode

export_commands = typer.Typer(name="export", help="Policies for other compilers and tools.", no_args_is_help=True)

Policy = Annotated[
    str, typer.Option(help="A policy in the box, mlp:FILE, or a rule: default, never, always, threshold:N.")
]
Network = Annotated[str, typer.Option("--policy", help="A policy in the box, or mlp:FILE.")]
Output = Annotated[Path, typer.Option(help="Where it goes.")]
Level = Annotated[
    str | None,
    typer.Option(help="Oz or Os: where a policy decides that is not in the box and reads clang's own decision."),
]


def _code(policy: str, *, calls: bool = False) -> DecisionCode:
    from mlgo_gym.deploy.decision_code import decision_code
    from mlgo_gym.deploy.exported_policy import network_path

    return decision_code(policy, network_path(policy, calls=calls))


@export_commands.command("plugin")
def plugin(
    policy: Policy,
    output: Output,
    llvm_config: Annotated[str, typer.Option(help="The llvm-config of the LLVM that is to load it.")] = "llvm-config",
    compiler: Annotated[str | None, typer.Option(help="The C++ compiler; that LLVM's clang++, or c++.")] = None,
    source: Annotated[Path | None, typer.Option(help="Where to keep the C++ of the plugin.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Build a pass plugin with a policy in it, for a distribution's clang, opt and lld.

    Then: clang-22 -Oz -fpass-plugin=./OUTPUT …, opt-22 -load-pass-plugin=…, or
    ld.lld-22 --load-pass-plugin=… for a link-time optimisation. Networks that see
    calls are taken too: `inline-oz` is `inline-oz-calls` here.
    """
    from mlgo_gym.deploy.exported_file import write_export
    from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_code

    llvm = installed_llvm(llvm_config)
    code = _code(policy, calls=True)
    if source is not None:
        write_export(source, plugin_code(code, llvm).encode())
    build_plugin(code, llvm, output, compiler=compiler)
    size = output.stat().st_size
    data = {"output": output, "policy": policy, "llvm": llvm.major, "bytes": size}
    show(as_json, data, f"{output}: {policy} for LLVM {llvm.major}, {size} bytes")


@export_commands.command("llvm-header")
def llvm_header(policy: Policy, output: Output, level: Level = None, as_json: JsonOption = False) -> None:
    """Write the class that LLVM's release mode compiles in, without TensorFlow.

    LLVM's build takes it with -DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=.
    Release mode does not compute clang's own decision: a policy that reads it
    gets it from the estimated cost.
    """
    from mlgo_gym.deploy.clangs_choice import clangs_choice
    from mlgo_gym.deploy.exported_file import write_export
    from mlgo_gym.deploy.release_header import release_header

    code = _code(policy)
    write_export(output, release_header(code, level).encode())
    _say(as_json, output, policy, output.stat().st_size, clangs_choice(policy, code.features, level))


@export_commands.command("onnx")
def onnx(policy: Network, output: Output, as_json: JsonOption = False) -> None:
    """Write a network as an ONNX model; onnx:OUTPUT reads it back."""
    from mlgo_gym.deploy.exported_file import write_export
    from mlgo_gym.deploy.exported_policy import exported_network
    from mlgo_gym.deploy.onnx_model import onnx_model

    write_export(output, onnx_model(policy, exported_network(policy)))
    _say(as_json, output, policy, output.stat().st_size)


@export_commands.command("tflite")
def tflite(
    policy: Network,
    output: Annotated[Path, typer.Option(help="A folder, for model.tflite and output_spec.json.")],
    level: Level = None,
    keep_default: Annotated[
        bool,
        typer.Option(help="Leave clang's own decision an input: mlgo-gym fills it, LLVM's development mode does not."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a network as the folder that -ml-inliner-model-under-training takes.

    That option is of an LLVM built with TensorFlow Lite; tflite:OUTPUT reads the
    folder back. Development mode does not compute clang's own decision: a policy
    that reads it gets it from the estimated cost.
    """
    from mlgo_gym.deploy.clangs_choice import clangs_choice
    from mlgo_gym.deploy.exported_policy import exported_network
    from mlgo_gym.deploy.tflite_model import tflite_model, write_tflite_folder

    network = exported_network(policy)
    choice = None if keep_default else clangs_choice(policy, network.features, level)
    model = tflite_model(policy, network, choice)
    write_tflite_folder(output, model)
    _say(as_json, output, policy, len(model), choice)


def _say(as_json: bool, output: Path, policy: str, size: int, choice: ClangsChoice | None = None) -> None:
    more = "" if choice is None else f"; {choice}"
    data = {
        "output": output,
        "policy": policy,
        "bytes": size,
        "inlining_default": None if choice is None else str(choice),
    }
    show(as_json, data, f"{output}: {policy}, {size} bytes{more}")
