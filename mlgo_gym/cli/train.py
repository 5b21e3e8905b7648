"""`mlgo-gym train`: networks from labels, from other policies, by evolution, and from nothing but a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlgo_gym.cli.options import (
    CalleeFeaturesOption,
    CompilerOptions,
    EnvironmentOption,
    ExecutionOptions,
    LargestOption,
    LimitOption,
    SeedOption,
    argument,
    option,
    with_options,
)
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.specification import parse_corpora
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.training import Monitor, NetworkSettings, TreeImitation

train_commands = typer.Typer(
    help="Train policies: from labels, from other policies, by evolution, or from a corpus.", no_args_is_help=True
)


OutputOption = Annotated[Path, option("File for the network, in safetensors.")]
HiddenOption = Annotated[str, option("Widths of the hidden layers, separated by commas.")]
StepsOption = Annotated[int, option("Steps of the network's optimiser.", min=1)]
MarginOption = Annotated[
    float | None,
    option(
        "Deviate from the base only where the output is beyond this.",
        min=0,
        show_default="train imitation: 0 or the choice of --validation; train policy: the best of several",
    ),
]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Trees fitted to labels, and the network that they are distilled into."""

    base: Annotated[
        str | None,
        option(
            "Policy that the network deviates from: default (clang's own choice) or threshold:K.",
            show_default="default; threshold:5 for train policy --level Os",
        ),
    ] = None
    models: Annotated[int, option("Number of averaged models of trees.", min=1)] = 12
    trees: Annotated[int, option("Trees per model.", min=1)] = 300
    hidden: HiddenOption = "128,64"
    steps: StepsOption = 20_000
    seed: SeedOption = 0

    def fit(self, threads: int | None, cache: Path | None = None) -> TreeImitation:
        """Return the fit; the cache is a folder that keeps networks."""
        from mlgo_gym.training import TreeImitation

        settings = network_settings(self.hidden, self.steps)
        base = self.base or "default"
        return TreeImitation(self.models, self.trees, settings, base, self.seed, threads or 1, cache)


def network_settings(hidden: str, steps: int) -> NetworkSettings:
    """Return the settings of a network with hidden layers such as `64,32`.

    Raises:
        MlgoError: a width is not a whole number ≥ 1.
    """
    from mlgo_gym.training import NetworkSettings

    try:
        widths = tuple(int(part) for part in hidden.split(",") if part.strip())
    except ValueError:
        widths = ()
    if min(widths, default=0) < 1:
        raise MlgoError(f"expected --hidden with widths ≥ 1 separated by commas, got {hidden!r}; use 64,32")
    return NetworkSettings(widths, steps)


@contextmanager
def training_monitor(output: Path) -> Iterator[Monitor]:
    """Show the progress of a training on standard error, and write curves for TensorBoard beside the output."""
    from mlgo_gym.training.monitor import Monitor, Progress

    with progress_over(None, "training") as shown:

        def show(progress: Progress) -> None:
            values = ", ".join(f"{name} {value:.4g}" for name, value in progress.values.items())
            shown.at(progress.done, progress.total, progress.stage, values)

        with Monitor(show, output.with_suffix(".curves")) as monitor:
            yield monitor


def margin_lines(margin_facts: Mapping[str, Any]) -> list[str]:
    """Return a line about each margin that was compared."""
    return [
        f"margin {tried['margin']:<4g} {tried['mean']:+.2%}, total {tried['total']:+.2%}, "
        f"{tried['worse']} of {tried['modules']} validation modules are larger"
        for tried in margin_facts["tried"]
    ]


BASES = {"Os": "threshold:5"}
"""Default base by level: at -Os the rule of -Oz is better than clang's own choices."""

EXTRA_LEVELS = {"Os": ["Oz"]}
"""Other levels whose labels help, by level."""


@train_commands.command()
@with_options
def imitation(
    labels: Annotated[list[Path], argument("Folders of mlgo-gym label, or Parquet files of labels.")],
    *,
    output: OutputOption,
    margin: MarginOption = None,
    validation: Annotated[
        str | None, option("Choose the margin by compiles of these modules.", metavar="CORPUS")
    ] = None,
    validation_modules: Annotated[int, option("Number of them, drawn at random.", min=1)] = 120,
    largest: LargestOption = 330_000,
    environment: EnvironmentOption = "mlgo/Inline-v0",
    trees: TreeOptions,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Train a network on labels.

    Labels of inlining: boosted trees, distilled into a small network. With
    --validation the margin is chosen by compiles, with a network that is not
    trained on these modules; OUTPUT.margins keeps them, and the same command
    resumes. Labels of evictions by flips: the same trees, which rate each live
    range against clang's own choice, by estimated instructions; --margin is in
    percent of the function's cost. Other labels: classification of the best
    action.
    """
    from mlgo_gym.llvm.advisors import INLINING_DEFAULT
    from mlgo_gym.make_env import make_environment
    from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS
    from mlgo_gym.training import Classification, MarginChoice, Pipeline, read_labels
    from mlgo_gym.training.checkpoint_choice import MARGINS, MarginFit
    from mlgo_gym.training.label_collector import drawn_modules
    from mlgo_gym.training.tree_imitation import EVICTION_MARGINS, EvictionImitation, rates_columns

    if margin is not None and validation is not None:
        raise MlgoError("expected --margin or --validation, got both; use one of them")
    stored = read_labels(labels)
    folder, options = output.with_suffix(".margins"), execution.execution()
    with training_monitor(output) as monitor:
        evicts = rates_columns(stored)
        if not evicts and INLINING_DEFAULT not in stored.features:
            if margin is not None or validation is not None:
                raise MlgoError("expected labels of inlining with --margin or --validation, got others; omit it")
            settings = trees.fit(1).network
            Pipeline(lambda *_: stored, Classification(settings, seed=trees.seed)).run(output, monitor)
            show(as_json, {"output": output, "labels": len(stored)}, f"wrote {output}")
            return
        shape = trees.fit(options.jobs, None if validation is None else folder)
        fit: MarginFit = shape
        if evicts:
            fit = EvictionImitation(shape.models, shape.trees, shape.network, shape.seed, shape.threads)
        choice = MarginChoice(fit, (margin or 0.0,))
        if validation is not None:
            arguments, margins = compiler.arguments(), MARGINS
            if evicts:
                environment, margins = "mlgo/RegAllocEvict-v0", EVICTION_MARGINS
                arguments["metric"] = ESTIMATED_INSTRUCTIONS
            corpus = make_environment(environment, {**arguments, "corpus": validation}).corpus
            valid = corpus.filter(names=drawn_modules(corpus, trees.seed, largest, validation_modules))
            choice = MarginChoice(fit, margins, valid, folder, environment, arguments, options)
        Pipeline(lambda *_: stored, fit, choice).run(output, monitor)
    facts, margin_facts = monitor.results["network"][0], monitor.results["margin"][0]
    lines = [*margin_lines(margin_facts), f"{facts['labels']} labels of {facts['modules']} modules"]
    if "estimates" in facts:
        lines[-1] += "; change by the labels:"
        lines += [f"  {name:12} {change:+8.2%}" for name, change in facts["estimates"].items()]
    lines.append(f"wrote {output}, margin {margin_facts['margin']:g}")
    if stored.trained_on is None:
        lines.append("no list of training modules: some labels lack the digests of their modules")
    show(as_json, {"output": output, **facts, **margin_facts}, "\n".join(lines))


@train_commands.command()
@with_options
def clone(
    *,
    output: OutputOption,
    environment: EnvironmentOption = "mlgo/Inline-v0",
    corpus: Annotated[str, option("Corpus of the episodes.")] = "builtin",
    expert: Annotated[str, option("Policy to imitate; default is clang.")] = "default",
    rounds: Annotated[int, option("Number of rounds; 1 is behaviour cloning, more are DAgger.", min=1)] = 3,
    episodes: Annotated[int, option("Episodes per round.", min=1)] = 16,
    see_default: Annotated[bool, option("Let the network see clang's own choice.")] = False,
    callee_features: CalleeFeaturesOption = False,
    label_smoothing: Annotated[float, option("Probability of other actions in the targets.", min=0, max=1)] = 0.0,
    hidden: HiddenOption = "64,32",
    steps: StepsOption = 2000,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Imitate another policy by behaviour cloning and DAgger, as a start for reinforcement learning."""
    from mlgo_gym.llvm.advisors import INLINING_DEFAULT
    from mlgo_gym.make_env import make_environment
    from mlgo_gym.policies.loading import with_callee_features
    from mlgo_gym.training import imitate

    arguments = {"corpus": corpus, **compiler.arguments(callee_features=callee_features)}
    with training_monitor(output) as monitor:
        imitate(
            make_environment(environment, with_callee_features(arguments, [expert])),
            expert,
            rounds=rounds,
            episodes=episodes,
            settings=network_settings(hidden, steps),
            exclude_features=() if see_default else (INLINING_DEFAULT,),
            label_smoothing=label_smoothing,
            seed=seed,
            execution=execution.execution(),
            output=output,
            monitor=monitor,
        )
    agreement = [round_results["agreement"] for round_results in monitor.results["rollouts"]]
    text = f"agreement with the expert by round: {', '.join(f'{share:.2%}' for share in agreement)}\nwrote {output}"
    show(as_json, {"output": output, "agreement": agreement}, text)


@train_commands.command()
@with_options
def evolve(
    start: Annotated[Path, argument("File of the network to start from.")],
    *,
    output: OutputOption,
    environment: EnvironmentOption = "mlgo/Inline-v0",
    corpus: Annotated[str, option("Corpus to compile.")] = "builtin",
    generations: Annotated[int, option("Number of generations.", min=1)] = 100,
    directions: Annotated[int, option("Antithetic directions per generation.", min=1)] = 8,
    best: Annotated[int, option("Number of best directions used for the update; adam.", min=1)] = 4,
    modules: Annotated[int, option("Modules that each sample compiles.", min=1)] = 8,
    deviation: Annotated[float, option("Distance of the samples, in standard deviations of the weights.")] = 0.05,
    step: Annotated[float, option("Learning rate; adam.")] = 0.003,
    optimiser: Annotated[str, option("adam, or cma: CMA-ES with a diagonal covariance.")] = "adam",
    largest: LargestOption = 60_000,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Evolve the weights of a network against the size of whole modules.

    The same command resumes an interrupted run, to the same result.
    """
    from mlgo_gym.training import Evolution

    arguments = {"corpus": corpus, **compiler.arguments()}
    evolution = Evolution(
        *(environment, arguments, generations, directions, best, modules, deviation, step, largest, seed, optimiser)
    )
    with training_monitor(output) as monitor:
        evolution.run(start, output, execution.execution(), monitor)
    changes = [-generation["reduction"] for generation in monitor.results["evolution"]]
    last = f"; change in the last generation {changes[-1]:+.3%}" if changes else ""
    show(as_json, {"output": output, "changes": changes}, f"wrote {output}{last}")


@train_commands.command()
@with_options
def policy(
    *,
    output: Annotated[Path, option("Folder for everything; the same command resumes from it.")],
    corpus: Annotated[str, option("Corpus without a level.")] = "builtin:train,catalogue:train",
    level: Annotated[str, option("Optimisation level that the policy is for.")] = "Oz",
    callee_features: CalleeFeaturesOption = False,
    extra_levels: Annotated[
        list[str] | None,
        option(
            "Another level to collect labels at; repeat for several. The policy's own level: no other.",
            "--extra-level",
            show_default="Oz for --level Os",
        ),
    ] = None,
    rounds: Annotated[int, option("Rounds of labels, each around the last network.", min=1)] = 4,
    compiles: Annotated[int, option("Maximum number of compiles per module and round.", min=1)] = 40,
    seconds: Annotated[float, option("Maximum CPU seconds per module and round.")] = 3.0,
    largest: LargestOption = 330_000,
    max_per_project: Annotated[int, option("Maximum number of modules per project (≥ 1).", min=1)] = 90,
    limit: LimitOption = None,
    margin: MarginOption = None,
    trees: TreeOptions,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Train a policy from a corpus: label, train, label around the new network, and so on.

    The first labels are taken around the base. The margin is chosen by compiles of the validation split, with a network
    that is not trained on it. `OUTPUT/policy.safetensors` is the policy, `OUTPUT/policy.json` its model card.
    """
    from mlgo_gym.training import Base, Labelling, PolicyTraining
    from mlgo_gym.training.checkpoint_choice import MARGINS

    specs = parse_corpora(corpus)
    if any(spec.optimize for spec in specs):
        raise MlgoError(f"expected --corpus without a level, got {corpus!r}; use --level")
    levels = dict.fromkeys([level, *(EXTRA_LEVELS.get(level, []) if extra_levels is None else extra_levels)])
    corpora = {name: ",".join(str(spec.at(name)) for spec in specs) for name in levels}
    base = Base.parse(trees.base or BASES.get(level, "default")).name
    labelling = Labelling(
        ",".join(dict.fromkeys(corpora.values())),
        base,
        arguments=compiler.arguments(callee_features=callee_features),
        compiles=compiles,
        seconds=seconds,
        seed=trees.seed,
        largest=largest,
        limit=limit,
        max_per_project=max_per_project,
    )
    fit = replace(trees, base=base).fit(execution.jobs)
    training = PolicyTraining(labelling, fit, rounds, MARGINS if margin is None else (margin,), corpora[level])
    with training_monitor(output / "training") as monitor:
        file = training.run(output, execution.execution(), monitor)
    margin_facts = monitor.results["margin"][0]
    text = "\n".join([*margin_lines(margin_facts), f"wrote {file}, margin {margin_facts['margin']:g}"])
    show(as_json, {"output": file, **margin_facts}, text)
