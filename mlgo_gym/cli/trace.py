"""`mlgo-gym trace` and `validate`: record compiles, and repeat them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mlgo_gym.cli import options
from mlgo_gym.cli.interface import echo, print_result
from mlgo_gym.cli.options import environment_arguments
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.evaluation.record import NO_DECISIONS
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.trace import is_reproducible
from mlgo_gym.evaluation.trace import trace as write_trace
from mlgo_gym.evaluation.trace import validate as reproduce_episodes
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features


def trace(
    environment: options.EnvironmentArgument,
    *,
    output: Annotated[Path, Option(help="New folder for the results, as of `evaluate`, and logs/MODULE.log.")],
    policy: Annotated[str, Option(help="Policy, as `evaluate` takes it.")] = "default",
    corpus: options.Corpus = "builtin",
    seed: options.Seed = 0,
    limit: options.Limit = None,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    as_json: options.Json = False,
) -> None:
    """Write the decisions of a policy as LLVM training logs, one per module.

    An observation has the features and, as its last tensor, the decision; its outcome is the reward, 0 except for the
    last. LLVM's log_reader.py and ml-compiler-opt read the logs, and `mlgo-gym validate` reproduces the episodes.
    """
    arguments = environment_arguments(clang, settings, trust_flags, link_view)
    arguments = with_callee_features(arguments, [policy])
    modules = make_environment(environment, {**arguments, "corpus": corpus}).corpus
    with progress_over(min(limit or len(modules), len(modules)), "Modules") as advance:
        result = write_trace(
            *(environment, policy),
            output=output,
            corpus=corpus,
            env_kwargs=arguments,
            seed=seed,
            limit=limit,
            progress=lambda _: advance(),
        )
    episodes = [episode for episode in result.episodes if episode.status != NO_DECISIONS]
    decisions = sum(episode.decisions for episode in episodes)
    failed = {episode.module: (episode.error or {}).get("message", "") for episode in result.failures}
    for module, message in failed.items():
        echo(f"{module}: {message}", err=True)
    text = f"{len(episodes)} episodes with {decisions} decisions in {output}"
    data = {"episodes": len(episodes), "decisions": decisions, "output": output, "failed": failed}
    print_result(as_json, data, text)


def validate(
    folder: Annotated[Path, Argument(help="Output of `evaluate` or `trace`, or a submission of `report`.")],
    *,
    corpus: Annotated[
        str | None, Option("--corpus", help="Present place of the corpus.", show_default="the recorded corpus")
    ] = None,
    clang: Annotated[
        str | None, Option(help="Clang of the recorded version: path, name on PATH, or 'bundled'.")
    ] = None,
    trust_flags: options.TrustFlags = False,
    as_json: options.Json = False,
) -> None:
    """Reproduce the episodes of an evaluation or a trace by their recorded actions, and compare the metrics.

    The policies are not needed. A crash of clang is reproduced if it recurs. Failures of a policy, and failures by a
    limit of time or memory, are not reproduced.

    Exit status 1: an episode was not reproduced.
    """
    total = sum(map(is_reproducible, load_result(folder).episodes))
    with progress_over(total, "Episodes") as advance:
        verdicts = reproduce_episodes(
            folder, corpus=corpus, clang=clang, trust_flags=trust_flags, progress=lambda _: advance()
        )
    different = [verdict for verdict in verdicts if verdict.problem]
    for verdict in different:
        echo(f"{verdict.policy} on {verdict.module}: {verdict.problem}", err=True)
    reproduced = len(verdicts) - len(different)
    data = {"episodes": len(verdicts), "reproduced": reproduced, "different": [asdict(entry) for entry in different]}
    print_result(as_json, data, f"reproduced {reproduced} of {len(verdicts)} episodes", different or not verdicts)
