"""`mlgo-gym explain`: why two policies make different code."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from mlgo_gym.cache import write_atomically
from mlgo_gym.cli.evaluate import split_policies
from mlgo_gym.cli.options import CompilerOptions, argument, option
from mlgo_gym.cli.output import show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.explanation import explain_module
from mlgo_gym.evaluation.explanation.report import as_page, as_text
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features


def explain(
    module: Annotated[str, argument("Module of the corpus, or a .bc file.")],
    *,
    policy: Annotated[list[str] | None, option("Policy; repeat for the second. Default: default.")] = None,
    corpus: str = "builtin",
    flags: Annotated[str | None, option("Flags of a .bc file, as one argument: '-Os -fPIC'.")] = None,
    environment: str = "mlgo/Inline-v0",
    measured: Annotated[int, option("Maximum number of calls to measure, one compile each.", "--show", min=0)] = 10,
    html: Annotated[Path | None, option("File for a page with the call graph.")] = None,
    as_json: bool = False,
    seed: int = 0,
    compiler: CompilerOptions,
) -> None:
    """Explain why two policies make different code of a module.

    Shows the calls with different answers, their decisive features and their
    bytes, by credit and measured, and the functions that changed.

        mlgo-gym explain lib/compress/zstd_ldm.o --corpus zstd@Os
            --policy threshold:5 --policy inline-os --html ldm.html
    """
    first, second = _pair(split_policies(policy or ()))
    arguments: dict[str, Any] = {"corpus": corpus, **with_callee_features(compiler.arguments(), (first, second))}
    if module.endswith(".bc") and Path(module).is_file():
        arguments["corpus"] = str(Path(module).resolve())
    if flags is not None:
        arguments = with_compile_options(arguments, flags=shlex.split(flags))
    env = make_environment(environment, arguments)
    try:
        name = env.corpus.names[0] if arguments["corpus"] != corpus else module
        with progress_over(None, "Steps") as progress:

            def note(done: int, steps: int, result: str) -> None:
                progress.at(done, steps, result=result)

            explanation = explain_module(env, name, (first, second), measured=measured, seed=seed, note=note)
    finally:
        env.close()
    if html is not None:
        write_atomically(html, as_page(explanation, shlex.join(["mlgo-gym", *sys.argv[1:]])).encode())
    written = "" if html is None else f"\n\nwritten: {html}"
    show(as_json, explanation.to_json(), as_text(explanation) + written)


def _pair(policies: list[str]) -> tuple[str, str]:
    pair = policies if len(policies) != 1 else ["default", *policies]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise MlgoError(
            f"expected two different policies, got {', '.join(policies) or 'none'}; use --policy twice, or once to "
            "compare with default"
        )
    return pair[0], pair[1]
