"""`mlgo-gym explain`: why two policies make different code of a module."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show


@with_options("compiler", CompilerOptions)
def explain(
    module: Annotated[str, typer.Argument(help="A module of the corpus, or a .bc file.")],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Give two, as `evaluate` takes them; one is compared with clang.", show_default="default"),
    ] = None,
    corpus: Annotated[str, typer.Option(help="Where the module is, as `evaluate` takes it.")] = "builtin",
    flags: Annotated[
        str | None, typer.Option(help="How a .bc file without recorded flags is compiled, in one word: '-Os -fPIC'.")
    ] = None,
    environment: Annotated[str, typer.Option(help="An environment of inlining.")] = "mlgo/Inline-v0",
    measured: Annotated[
        int, typer.Option("--show", min=0, help="How many calls to show and measure: a compile for each.")
    ] = 10,
    html: Annotated[Path | None, typer.Option(help="Write a page with the call graph to this file.")] = None,
    as_json: JsonOption = False,
    seed: Annotated[int, typer.Option(help="What random policies depend on.")] = 0,
    compiler: CompilerOptions,
) -> None:
    """Show where two policies decide differently in a module, and what came of it.

    The calls by caller and callee, the features that decided, the bytes of each
    difference by credit and measured, and the functions that grew or shrank.

        mlgo-gym explain lib/compress/zstd_ldm.o --corpus zstd@Os
            --policy threshold:5 --policy inline-os --html ldm.html
    """
    from mlgo_gym.cli.evaluate import split_policies
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.explanation import explain_module
    from mlgo_gym.explanation.page import as_page
    from mlgo_gym.explanation.text import as_text
    from mlgo_gym.policies.loading import with_calls
    from mlgo_gym.storage.cache import write_atomically

    first, second = _pair(split_policies(policy or ()))
    arguments: dict[str, Any] = {"corpus": corpus, **with_calls(compiler.arguments(), (first, second))}
    if module.endswith(".bc") and Path(module).is_file():
        arguments["corpus"] = str(Path(module).resolve())
    if flags is not None:
        arguments["flags"] = shlex.split(flags)
    env = make_environment(environment, arguments)
    try:
        name = env.corpus.names[0] if arguments["corpus"] != corpus else module
        with progress_over(None, "Steps") as progress:

            def note(done: int, steps: int, found: str) -> None:
                progress.at(done, steps, result=found)

            explanation = explain_module(env, name, (first, second), measured=measured, seed=seed, note=note)
    finally:
        env.close()
    if html is not None:
        write_atomically(html, as_page(explanation, shlex.join(["mlgo-gym", *sys.argv[1:]])).encode())
    written = "" if html is None else f"\n\nwritten: {html}"
    show(as_json, explanation.to_json(), as_text(explanation) + written)


def _pair(policies: list[str]) -> tuple[str, str]:
    from mlgo_gym.errors import MlgoError

    pair = policies if len(policies) != 1 else ["default", *policies]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise MlgoError(
            f"two policies are explained against each other, found {', '.join(policies) or 'none'}; give --policy twice"
        )
    return pair[0], pair[1]
