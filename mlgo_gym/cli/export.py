"""`mlgo-gym export`: policies for compilers and tools without mlgo-gym."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from mlgo_gym.cli import options
from mlgo_gym.cli.interface import print_result
from mlgo_gym.deploy.c_code import decision_code, release_header
from mlgo_gym.deploy.exports import default_threshold, exported_network, replacement_text, write_export
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_code, plugin_decision_code
from mlgo_gym.deploy.tosa_export import tosa_model

group = typer.Typer(
    name="export", help="last-call, other rules and networks for other compilers and tools.", no_args_is_help=True
)

Policy = Annotated[str, Option(help="last-call, rule:FILE, mlp:FILE, default, never, always or threshold:N.")]
Output = Annotated[Path, Option(help="Path of the exported file.")]
Level = Annotated[str | None, Option(help="Oz or Os, for a policy that uses clang's own decision.")]


@group.command()
def plugin(
    *,
    policy: Policy,
    output: Output,
    llvm_config: Annotated[str, Option(help="llvm-config of the LLVM that loads the plugin.")] = "llvm-config",
    compiler: Annotated[str | None, Option(help="C++ compiler.", show_default="that LLVM's clang++, or c++")] = None,
    source: Annotated[
        Path | None, Option(help="Path for a copy of the plugin's C++, in which a rule is one function to read.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Build a pass plugin for a distribution's clang, opt and lld.

    Use it as clang-22 -Oz -fpass-plugin=./OUTPUT …, opt-22 -load-pass-plugin=…, or ld.lld-22 --load-pass-plugin=… for a
    link-time optimisation. The plugin computes callee features.
    """
    llvm = installed_llvm(llvm_config)
    code = plugin_decision_code(policy)
    if source is not None:
        write_export(source, plugin_code(code, llvm).encode())
    build_plugin(code, llvm, output, compiler=compiler)
    size = output.stat().st_size
    data = {"output": output, "policy": policy, "llvm": llvm.major, "bytes": size}
    print_result(as_json, data, f"{output}: {policy} for LLVM {llvm.major}, {size} bytes")


@group.command()
def llvm_header(*, policy: Policy, output: Output, level: Level = None, as_json: options.Json = False) -> None:
    """Write the C++ class for LLVM's release mode, which needs no TensorFlow.

    LLVM's build takes it with -DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=. Release mode does not compute clang's own
    inlining decision. A policy that uses it gets a comparison of the estimated cost instead.
    """
    code = decision_code(policy)
    threshold = default_threshold(policy, code.features, level)
    _write(as_json, output, policy, release_header(code, level).encode(), threshold)


@group.command()
def tosa(
    *,
    policy: Annotated[str, Option(help="Network, as mlp:FILE.")],
    output: Output,
    level: Level = None,
    as_json: options.Json = False,
) -> None:
    """Write a network as TOSA in MLIR bytecode, for an LLVM that is built without TensorFlow.

    LLVM's build takes it with -DLLVM_MLGO_MODELS=NAME,OUTPUT,inliner, and clang selects it with -mllvm
    -mlgo-model=NAME. A policy that uses clang's own inlining decision gets a comparison of the estimated cost instead.
    """
    network = exported_network(policy)
    threshold = default_threshold(policy, network.features, level)
    _write(as_json, output, policy, tosa_model(policy, network, threshold), threshold)


def _write(as_json: bool, output: Path, policy: str, data: bytes, threshold: int | None = None) -> None:
    write_export(output, data)
    text = None if threshold is None else replacement_text(threshold)
    result = {"output": output, "policy": policy, "bytes": len(data), "inlining_default": text}
    print_result(as_json, result, f"{output}: {policy}, {len(data)} bytes{f'; {text}' if text else ''}")
