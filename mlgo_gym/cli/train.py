"""`mlgo-gym label` and `mlgo-gym train`: labels, and networks from labels or only a corpus."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from mlgo_gym.cli import options
from mlgo_gym.cli.interface import echo, print_result
from mlgo_gym.cli.options import environment_arguments
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.opening import parse_corpora
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.scheduling import Execution
from mlgo_gym.training import Labelling, PolicyTraining, TreeImitation, read_labels
from mlgo_gym.training.checkpoint_choice import MARGINS
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.margin import Base, with_margin
from mlgo_gym.training.monitor import Monitor, Progress
from mlgo_gym.training.pipeline import REFERENCES, check_reference, save_network

BASES = {"Os": "threshold:5"}
"""Default base by level: at -Os the rule of -Oz is better than clang's own choices."""

EXTRA_LEVELS = {"Os": ("Oz",)}
"""Other levels whose labels help, by level."""

group = typer.Typer(name="train", help="Train policies: from labels, or from a corpus.", no_args_is_help=True)

MARGIN_HELP = "Deviate from the base only where the output is beyond this."
BaseOption = Annotated[
    str | None,
    Option(
        help="Policy that the network deviates from: default (clang's own choice) or threshold:K.",
        show_default="default; threshold:5 for train policy --level Os",
    ),
]
ModelsOption = Annotated[int, Option(help="Number of averaged models of trees (≥ 1).", min=1)]
TreesOption = Annotated[int, Option(help="Trees per model (≥ 1).", min=1)]
TrainingSeedOption = Annotated[int, Option(help="Source of the trees, the first weights and the batches.")]
HiddenOption = Annotated[str, Option(help="Widths of the hidden layers, separated by commas.")]
StepsOption = Annotated[int, Option(help="Steps of the network's optimiser.", min=1)]
CompilesOption = Annotated[int, Option(help="Maximum number of compiles per module (≥ 1).", min=1)]
LabelledModulesOption = Annotated[
    int | None, Option(help="Number of modules, drawn at random (≥ 1). Default: all.", min=1)
]


def label(
    corpus: options.CorpusArgument,
    *,
    output: Annotated[Path, Option(help="Folder for the labels; finished modules are not labelled again.")],
    policy: Annotated[
        str, Option(help="Policy that the labels are taken around, as `load_policy` takes it.")
    ] = "default",
    compiles: CompilesOption = 40,
    seconds: Annotated[float | None, Option(help="Maximum CPU time per module, in seconds. Default: no limit.")] = None,
    seed: Annotated[int, Option(help="Selects the labelled decisions and the order of the modules.")] = 0,
    largest: Annotated[
        int | None, Option(help="Maximum size of a module, in bytes of bitcode. Default: no limit.")
    ] = None,
    limit: LabelledModulesOption = None,
    max_per_project: Annotated[
        int | None, Option(help="Maximum number of modules per project (≥ 1). Default: no limit.", min=1)
    ] = None,
    graphs: Annotated[bool, Option(help="Also store the call graph at each label.")] = False,
    metric: options.Metric = None,
    jobs: options.Workers = None,
    ray: options.Ray = None,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    as_json: options.Json = False,
) -> None:
    """Measure the cost of the other action for many inlining decisions around a policy.

    One compile flips many independent decisions, and a label is the change in
    bytes, or in the metric. The same command resumes an interrupted run. Train
    on the labels with `mlgo-gym train imitation`.

    The name of a frozen set, mlgo/inline-graphs-v0, stands for a corpus with all
    options; its labels are compared with those of the same name everywhere.

    Exit status 1: a module failed.
    """
    plain = environment_arguments(clang, settings, trust_flags, link_view)
    given = {"metric": metric, "ir": graphs}
    arguments = {name: value for name, value in given.items() if value} | plain
    labelling = Labelling(corpus, policy, arguments, compiles, seconds, seed, largest, limit, max_per_project)
    if corpus in REFERENCES:
        if labelling != Labelling(corpus, arguments=plain):
            raise MlgoError(f"expected no options of labels beside {corpus}, got some; omit them")
        frozen, _ = REFERENCES[corpus]
        labelling = replace(frozen, arguments={**frozen.arguments, **plain})
    lines, failed = [], {}
    names = ("labels", "decisions", "compiles", "seconds", "flips", "missed", "ambiguous", "unbalanced")
    total = dict.fromkeys(names, 0)
    with progress_over(len(labelling.modules(labelling.make().corpus)), "Modules") as advance:
        for line in labelling.run(output, Execution(jobs, ray)):
            if "error" in line:
                failed[line["module"]] = line["error"]
                echo(f"mlgo-gym: {line['module']} has no labels: {line['error'].splitlines()[0]}", err=True)
            else:
                lines.append(line)
                total = {name: number + line.get(name, 0) for name, number in total.items()}
            advance(f"{total['labels']:,} labels" + (f", {len(failed)} failed" if failed else ""))
    if corpus in REFERENCES and not failed:
        check_reference(corpus, output)
    data = {"modules": len(lines), **total, "failed": failed}
    print_result(as_json, data, "\n".join(_counts(data)), failed)


def _counts(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data['labels']} labels of {data['decisions']} decisions in {data['modules']} modules"
    yield f"{data['compiles']} compiles, {data['seconds']:.0f} s of CPU time; {data['unbalanced']} without labels"
    if data["flips"]:
        yield f"{data['flips']} flips: {data['missed']} did not occur again, {data['ambiguous']} ambiguous"


def _network(hidden: str, steps: int) -> NetworkSettings:
    try:
        widths = tuple(int(part) for part in hidden.split(",") if part.strip())
    except ValueError:
        widths = ()
    if min(widths, default=0) < 1:
        raise MlgoError(f"expected --hidden with widths ≥ 1 separated by commas, got {hidden!r}; use 64,32")
    return NetworkSettings(widths, steps)


@contextmanager
def training_monitor() -> Iterator[Monitor]:
    """Show the progress of a training on standard error."""
    with progress_over(None, "training") as shown:

        def show(progress: Progress) -> None:
            values = ", ".join(f"{name} {value:.4g}" for name, value in progress.values.items())
            shown.at(progress.done, progress.total, progress.stage, values)

        yield Monitor(show)


@group.command()
def imitation(
    labels: Annotated[list[Path], Argument(help="Folders of mlgo-gym label, or Parquet files of labels.")],
    *,
    output: Annotated[Path, Option(help="File for the network, in safetensors.")],
    margin: Annotated[float, Option(help=MARGIN_HELP, min=0)] = 0.0,
    base: BaseOption = None,
    models: ModelsOption = 12,
    trees: TreesOption = 300,
    seed: TrainingSeedOption = 0,
    hidden: HiddenOption = "128,64",
    steps: StepsOption = 20_000,
    jobs: Annotated[int, Option(help="Threads of the trees (≥ 1); the number changes no result.", min=1)] = 1,
    as_json: options.Json = False,
) -> None:
    """Train a network on labels: boosted trees, distilled into a small network."""
    stored = read_labels(labels)
    if INLINING_DEFAULT not in stored.features:
        raise MlgoError(f"expected labels of inlining, got labels of {', '.join(stored.features[:9])}; name others")
    fit = TreeImitation(models, trees, _network(hidden, steps), seed, jobs, base or "default")
    with training_monitor() as monitor:
        network = with_margin(fit.fit([stored], monitor), margin, fit.base)
    save_network(network, output, stored)
    (facts,) = monitor.results["network"]
    counts = f"{facts['labels']} labels of {facts['modules']} modules; change by the labels:"
    lines = [counts, *(f"  {name:12} {change:+8.2%}" for name, change in facts["estimates"].items())]
    lines.append(f"wrote {output}, margin {margin:g}")
    if stored.trained_on is None:
        lines.append("no list of training modules: some labels lack the digests of their modules")
    print_result(as_json, {"output": output, **facts, "margin": margin}, "\n".join(lines))


@group.command()
def policy(
    *,
    output: Annotated[Path, Option(help="Folder for everything; the same command resumes from it.")],
    corpus: Annotated[str, Option(help="Corpus without a level.")] = "builtin:train,catalogue:train",
    level: Annotated[str, Option(help="Optimisation level that the policy is for.")] = "Oz",
    rounds: Annotated[int, Option(help="Rounds of labels, each around the last network.", min=1)] = 4,
    compiles: CompilesOption = 40,
    seconds: Annotated[float, Option(help="Maximum CPU time per module, in seconds.")] = 3.0,
    largest: Annotated[int, Option(help="Maximum size of a module, in bytes of bitcode.")] = 330_000,
    max_per_project: Annotated[int, Option(help="Maximum number of modules per project (≥ 1).", min=1)] = 90,
    limit: LabelledModulesOption = None,
    margin: Annotated[float | None, Option(help=MARGIN_HELP, min=0, show_default="the best of several")] = None,
    base: BaseOption = None,
    models: ModelsOption = 12,
    trees: TreesOption = 300,
    seed: TrainingSeedOption = 0,
    hidden: HiddenOption = "128,64",
    steps: StepsOption = 20_000,
    jobs: options.Workers = None,
    ray: options.Ray = None,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    as_json: options.Json = False,
) -> None:
    """Train a policy from a corpus: label, train, label around the new network, and so on.

    The first labels are taken around the base. The margin is chosen by compiles of the validation split, with a network
    that is not trained on it. `OUTPUT/policy.safetensors` is the policy, `OUTPUT/policy.json` its model card.
    """
    specs = parse_corpora(corpus)
    if any(spec.optimize for spec in specs):
        raise MlgoError(f"expected --corpus without a level, got {corpus!r}; use --level")
    levels = dict.fromkeys([level, *EXTRA_LEVELS.get(level, ())])
    corpora = {name: ",".join(str(spec.at(name)) for spec in specs) for name in levels}
    arguments = environment_arguments(clang, settings, trust_flags, link_view)
    start = Base.parse(base or BASES.get(level, "default")).name
    labelling = Labelling(
        ",".join(dict.fromkeys(corpora.values())),
        start,
        arguments=arguments,
        compiles=compiles,
        seconds=seconds,
        seed=seed,
        largest=largest,
        limit=limit,
        max_per_project=max_per_project,
    )
    fit = TreeImitation(models, trees, _network(hidden, steps), seed, jobs or 1, start)
    training = PolicyTraining(labelling, fit, rounds, MARGINS if margin is None else (margin,), corpora[level])
    with training_monitor() as monitor:
        file = training.run(output, Execution(jobs, ray), monitor)
    (margin_facts,) = monitor.results["margin"]
    lines = [
        f"margin {tried['margin']:<4g} {tried['mean']:+.2%}, total {tried['total']:+.2%}, "
        f"{tried['worse']} of {tried['modules']} validation modules are larger"
        for tried in margin_facts["tried"]
    ]
    lines.append(f"wrote {file}, margin {margin_facts['margin']:g}")
    print_result(as_json, {"output": file, **margin_facts}, "\n".join(lines))
