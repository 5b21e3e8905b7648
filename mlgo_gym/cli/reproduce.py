"""`mlgo-gym validate`, `replay` and `reproduce`: reproduce evaluations, traces, recipes and compiler failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.options import ClangOption, TrustFlagsOption
from mlgo_gym.cli.output import FAILED, JsonOption, echo, show

if TYPE_CHECKING:
    from mlgo_gym.integrations.replay import Verdict

CorpusOption = Annotated[
    str | None, typer.Option(help="Present place of the corpus.", show_default="the recorded corpus")
]
RecordedClangOption = Annotated[
    str | None, typer.Option(help="Clang of the recorded version: a path, a name on PATH, or 'bundled'.")
]


def validate(
    folder: Annotated[Path, typer.Argument(help="Output of `evaluate`.")],
    *,
    corpus: CorpusOption = None,
    clang: RecordedClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce the episodes of an evaluation by their recorded actions, and compare the metrics.

    The policies are not needed. Failed episodes are not reproduced.

    Exit status 1: an episode was not reproduced.
    """
    from mlgo_gym.evaluation.record import DONE
    from mlgo_gym.integrations.replay import validate as reproduce_results

    given = partial(reproduce_results, folder, corpus=corpus, clang=clang, trust_flags=trust_flags)
    _reproduce_episodes(given, folder, {DONE}, as_json)


def replay(
    folder: Annotated[Path, typer.Argument(help="Output of `trace`, or a recipe of `search`.")],
    *,
    corpus: CorpusOption = None,
    clang: RecordedClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce the episodes of a trace, or a recipe, and compare the results.

    Failed compiles are reproduced too, and logs are compared byte for byte. A
    recipe is compiled from the bitcode beside it, unless --corpus names a
    corpus.

    Exit status 1: an episode was not reproduced.
    """
    from mlgo_gym.evaluation.record import DONE
    from mlgo_gym.evaluation.record import FAILED as EPISODE_FAILED
    from mlgo_gym.integrations.replay import validate as reproduce_trace

    if folder.is_file():
        _replay_recipe(folder, corpus, clang, trust_flags, as_json)
        return
    given = partial(reproduce_trace, folder, corpus=corpus, clang=clang, trust_flags=trust_flags, logs=True)
    _reproduce_episodes(given, folder, {DONE, EPISODE_FAILED}, as_json)


def _reproduce_episodes(
    reproduce: Callable[..., Sequence[Verdict]], folder: Path, statuses: set[str], as_json: bool
) -> None:
    """Print the verdicts on recorded episodes; exit with status 1 if one was not reproduced, or if there is none."""
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.result_folder import load_result

    total = sum(episode.status in statuses for episode in load_result(folder).episodes)
    with progress_over(total, "Episodes") as advance:
        verdicts = reproduce(progress=lambda _: advance())
    different = [verdict for verdict in verdicts if verdict.problem]
    for verdict in different:
        echo(f"{verdict.policy} on {verdict.module}: {verdict.problem}", err=True)
    reproduced = len(verdicts) - len(different)
    data = {"episodes": len(verdicts), "reproduced": reproduced, "different": [asdict(each) for each in different]}
    show(as_json, data, f"reproduced {reproduced} of {len(verdicts)} episodes")
    if different or not verdicts:
        raise typer.Exit(FAILED)


def _replay_recipe(path: Path, corpus: str | None, clang: str | None, trust_flags: bool, as_json: bool) -> None:
    from mlgo_gym.corpus import open_corpus
    from mlgo_gym.deploy.recipes import replay_recipe, verify_recipe
    from mlgo_gym.episode.attribution.recipe import read_recipe
    from mlgo_gym.errors import MlgoError
    from mlgo_gym.llvm.toolchain import find_toolchain

    recipe, toolchain = read_recipe(path), find_toolchain(clang)
    if corpus is not None:
        module = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags).module(recipe.module)
        problem = replay_recipe(recipe, module, toolchain)
    else:
        problem = verify_recipe(path, recipe, toolchain)
    if problem:
        raise MlgoError(f"{path}: {problem}; search again, or name the corpus of the module with --corpus")
    show(
        as_json,
        {"module": recipe.module, "text": recipe.text, "change": recipe.change},
        f"reproduced {recipe.module}: {recipe.text} bytes, {recipe.change:+.2%} against plain clang",
    )


def reproduce(
    folder: Annotated[Path, typer.Argument(help="Reproducer, the folder in info['error']['reproducer'].")],
    *,
    clang: ClangOption = None,
    module: Annotated[Path | None, typer.Option(help="Bitcode to compile instead of the recorded module.")] = None,
    reduce: Annotated[bool, typer.Option("--reduce", help="Reduce the module while the problem persists.")] = False,
    timeout: Annotated[float, typer.Option(help="Longest silence of clang, in seconds.")] = 60.0,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Repeat a crash or a wrong object from a reproducer.

    Crashes of a compiler under an agent are kept in $MLGO_REPRODUCERS, by
    default in the folder reproducers of the cache. With one advisor, its
    reproduce.sh repeats the crash with clang alone, for a report to LLVM.
    --reduce reduces the module with llvm-reduce; --module
    FOLDER/reduced.bc resumes an interrupted reduction.

    Exit status 1: the failure was not reproduced.
    """
    from mlgo_gym.episode.reproducer import MODULE
    from mlgo_gym.episode.reproduction import reduce_module
    from mlgo_gym.episode.reproduction import reproduce as repeat
    from mlgo_gym.llvm.toolchain import find_toolchain

    toolchain = find_toolchain(clang)
    if reduce:
        reduced = reduce_module(folder, toolchain, bitcode=module, timeout=timeout, trust_flags=trust_flags)
        size, before = reduced.stat().st_size, (folder / MODULE).stat().st_size
        show(as_json, {"module": reduced, "bytes": size, "before": before}, f"{reduced}: {size} of {before} bytes")
        return
    found = repeat(folder, toolchain, bitcode=module, timeout=timeout, trust_flags=trust_flags)
    text = f"{'reproduced' if found.reproduced else 'not reproduced'}: {found.description}"
    show(as_json, {"reproduced": found.reproduced, "description": found.description}, text)
    if not found.reproduced:
        raise typer.Exit(FAILED)
