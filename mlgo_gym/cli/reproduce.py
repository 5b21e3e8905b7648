"""`mlgo-gym trace`, `validate`, `replay` and `reproduce`: record compiles, and repeat them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mlgo_gym.cli.options import (
    ClangOption,
    CompilerOptions,
    CorpusOption,
    EnvironmentArgument,
    LimitOption,
    SeedOption,
    TrustFlagsOption,
    argument,
    option,
    with_options,
)
from mlgo_gym.cli.output import JsonOption, echo, exit_with, show
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.integrations.trace import Trajectory

RecordedCorpusOption = Annotated[
    str | None, option("Present place of the corpus.", "--corpus", show_default="the recorded corpus")
]
RecordedClangOption = Annotated[str | None, option("Clang of the recorded version: path, name on PATH, or 'bundled'.")]


@with_options
def trace(
    environment: EnvironmentArgument,
    *,
    output: Annotated[Path, option("New folder for the results, as of `evaluate`, and logs/MODULE.log.")],
    policy: Annotated[str, option("Policy, as `evaluate` takes it.")] = "default",
    corpus: CorpusOption = "builtin",
    seed: SeedOption = 0,
    limit: LimitOption = None,
    compiler: CompilerOptions,
    minari: Annotated[
        str | None, option("Minari dataset to make, such as mlgo/inline/default-v0.", metavar="ID")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the decisions of a policy as LLVM training logs, one per module.

    An observation has the features and, as its last tensor, the decision; its outcome is the reward, 0 except for the
    last. LLVM's log_reader.py and ml-compiler-opt read the logs, and `mlgo-gym replay` reproduces them.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.record import NO_DECISIONS
    from mlgo_gym.integrations.minari import MinariDataset
    from mlgo_gym.integrations.trace import trace as write_trace
    from mlgo_gym.make_env import make_environment
    from mlgo_gym.policies.loading import with_callee_features

    arguments = with_callee_features(compiler.arguments(), [policy])
    dataset = None if minari is None else MinariDataset(minari, environment, policy)
    modules = make_environment(environment, {**arguments, "corpus": corpus}).corpus
    total = limit if modules.infinite else min(limit or len(modules), len(modules))
    with progress_over(total, "Modules") as advance:

        def progress(trajectory: Trajectory) -> None:
            advance()
            if dataset is not None:
                dataset.add(trajectory)

        result = write_trace(
            *(environment, policy),
            output=output,
            corpus=corpus,
            env_kwargs=arguments,
            seed=seed,
            limit=limit,
            progress=progress,
        )
    episodes = [episode for episode in result.episodes if episode.status != NO_DECISIONS]
    decisions = sum(episode.decisions for episode in episodes)
    failed = {episode.module: (episode.error or {}).get("message", "") for episode in result.failures}
    for module, message in failed.items():
        echo(f"{module}: {message}", err=True)
    text = f"{len(episodes)} episodes with {decisions} decisions in {output}"
    if dataset is not None:
        dataset.write({**arguments, "corpus": corpus})
        text += f"\nMinari dataset {minari}"
    data = {"episodes": len(episodes), "decisions": decisions, "output": output, "failed": failed, "minari": minari}
    show(as_json, data, text)


def validate(
    folder: Annotated[Path, argument("Output of `evaluate`.")],
    *,
    corpus: RecordedCorpusOption = None,
    clang: RecordedClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce the episodes of an evaluation by their recorded actions, and compare the metrics.

    The policies are not needed. Failed episodes are not reproduced.

    Exit status 1: an episode was not reproduced.
    """
    _reproduce_episodes(folder, corpus, clang, trust_flags, as_json, logs=False)


def replay(
    folder: Annotated[Path, argument("Output of `trace`, or a recipe of `search`.")],
    *,
    corpus: RecordedCorpusOption = None,
    clang: RecordedClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce the episodes of a trace, or a recipe, and compare the metrics.

    The recorded advice is sent ahead, so clang never waits. A recipe is compiled from the bitcode beside it, unless
    --corpus names a corpus.

    Exit status 1: an episode was not reproduced.
    """
    if folder.is_file():
        _replay_recipe(folder, corpus, clang, trust_flags, as_json)
    else:
        _reproduce_episodes(folder, corpus, clang, trust_flags, as_json, logs=True)


def _reproduce_episodes(
    folder: Path, corpus: str | None, clang: str | None, trust_flags: bool, as_json: bool, *, logs: bool
) -> None:
    """Print the verdicts on recorded episodes; exit with status 1 if one was not reproduced, or if there is none."""
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.record import DONE, FAILED
    from mlgo_gym.evaluation.result_folder import load_result
    from mlgo_gym.integrations.replay import validate as reproduce_episodes

    statuses = {DONE, FAILED} if logs else {DONE}
    total = sum(episode.status in statuses for episode in load_result(folder).episodes)
    with progress_over(total, "Episodes") as advance:
        verdicts = reproduce_episodes(
            folder, corpus=corpus, clang=clang, trust_flags=trust_flags, logs=logs, progress=lambda _: advance()
        )
    different = [verdict for verdict in verdicts if verdict.problem]
    for verdict in different:
        echo(f"{verdict.policy} on {verdict.module}: {verdict.problem}", err=True)
    reproduced = len(verdicts) - len(different)
    data = {"episodes": len(verdicts), "reproduced": reproduced, "different": [asdict(entry) for entry in different]}
    show(as_json, data, f"reproduced {reproduced} of {len(verdicts)} episodes")
    exit_with(different or not verdicts)


def _replay_recipe(path: Path, corpus: str | None, clang: str | None, trust_flags: bool, as_json: bool) -> None:
    from mlgo_gym.corpus import open_corpus
    from mlgo_gym.deploy.recipes import replay_recipe, verify_recipe
    from mlgo_gym.episode.attribution.recipe import read_recipe
    from mlgo_gym.llvm.toolchain import find_toolchain

    recipe, toolchain = read_recipe(path), find_toolchain(clang)
    if corpus is None:
        problem = verify_recipe(path, recipe, toolchain)
    else:
        module = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags).module(recipe.module)
        problem = replay_recipe(recipe, module, toolchain)
    if problem:
        raise MlgoError(f"{path}: {problem}; search again, or name the corpus of the module with --corpus")
    text = f"reproduced {recipe.module}: {recipe.text} bytes, {recipe.change:+.2%} against plain clang"
    show(as_json, {"module": recipe.module, "text": recipe.text, "change": recipe.change}, text)


def reproduce(
    folder: Annotated[Path, argument("Reproducer, the folder in info['error']['reproducer'].")],
    *,
    clang: ClangOption = None,
    module: Annotated[Path | None, option("Bitcode to compile instead of the recorded module.")] = None,
    timeout: Annotated[float, option("Longest silence of clang, in seconds.")] = 60.0,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Repeat a crash from a reproducer.

    Crashes of a compiler under an agent are kept in $MLGO_REPRODUCERS, by default in the folder reproducers of the
    cache. With one advisor, its reproduce.sh repeats the crash with clang alone, for a report to LLVM.

    Exit status 1: the failure was not reproduced. So a script with --module "$1" is a test for llvm-reduce.
    """
    from mlgo_gym.episode.reproducer import reproduce as repeat
    from mlgo_gym.llvm.toolchain import find_toolchain

    answer = repeat(folder, find_toolchain(clang), bitcode=module, timeout=timeout, trust_flags=trust_flags)
    text = f"{'reproduced' if answer.reproduced else 'not reproduced'}: {answer.description}"
    show(as_json, {"reproduced": answer.reproduced, "description": answer.description}, text)
    exit_with(not answer.reproduced)
