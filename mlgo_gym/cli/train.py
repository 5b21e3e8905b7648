"""`mlgo-gym label` and `mlgo-gym train`: labels, and networks from labels, policies, or only a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from mlgo_gym.cli.interface import CompilerOptions, OptionsOf, Result, Values, argument, echo, option
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.opening import parse_corpora
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.scheduling import Execution
from mlgo_gym.training import Labelling, PolicyTraining, TreeImitation, imitate, read_labels
from mlgo_gym.training.checkpoint_choice import MARGINS, Base, MarginChoice, MarginFit
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.monitor import Monitor, Progress
from mlgo_gym.training.pipeline import REFERENCES, check_reference, drawn_modules, run_pipeline
from mlgo_gym.training.tree_imitation import EVICTION_MARGINS, EvictionImitation, TreeSettings, rates_columns

PADDING = 16
"""Difference in bytes that padding between functions can make."""

BASES = {"Os": "threshold:5"}
"""Default base by level: at -Os the rule of -Oz is better than clang's own choices."""

EXTRA_LEVELS = {"Os": ["Oz"]}
"""Other levels whose labels help, by level."""

OutputOption = Annotated[Path, option("File for the network, in safetensors.")]
MarginOption = Annotated[
    float | None,
    option(
        "Deviate from the base only where the output is beyond this.",
        min=0,
        show_default="train imitation: 0 or the choice of --validation; train policy: the best of several",
    ),
]
BaseOption = Annotated[
    str | None,
    option(
        "Policy that the network deviates from: default (clang's own choice) or threshold:K.",
        show_default="default; threshold:5 for train policy --level Os",
    ),
]
ExecutionOptions = Annotated[Execution, OptionsOf(Execution, "jobs ray")]
TreeOptions = Annotated[Values, OptionsOf(TreeSettings, "models trees seed")]


def label(
    corpus: str,
    *,
    output: Annotated[Path, option("Folder for the labels; finished modules are not labelled again.")],
    settings_of_labels: Annotated[
        Values, OptionsOf(Labelling, "policy environment compiles seconds seed check largest limit max_per_project")
    ],
    callee_features: bool = False,
    graphs: Annotated[bool, option("Also store the call graph at each label of inlining.")] = False,
    metric: str | None = None,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
) -> Result:
    """Measure the cost of other actions for many decisions around a policy.

    Inlining: one compile flips many independent decisions, and a label is the
    change in bytes, or in the metric. Evictions: one compile flips a decision of
    every function, and a label is the change in the metric. The same command
    resumes an interrupted run. Train on the labels with `mlgo-gym train imitation`.

    The name of a frozen set, mlgo/inline-graphs-v0, stands for a corpus with all
    options; its labels are compared with those of the same name everywhere.

    Exit status 1: a module failed.
    """
    arguments = compiler.arguments(callee_features=callee_features, metric=metric, ir=graphs)
    labelling = Labelling(corpus, arguments=arguments, **settings_of_labels)
    if corpus in REFERENCES:
        if labelling != Labelling(corpus, arguments=compiler.arguments()):
            raise MlgoError(f"expected no options of labels beside {corpus}, got some; omit them")
        frozen, _ = REFERENCES[corpus]
        labelling = replace(frozen, arguments=compiler.arguments(**frozen.arguments))
    lines, failed = [], {}
    names = ("labels", "decisions", "compiles", "seconds", "flips", "missed", "ambiguous", "unbalanced")
    total = dict.fromkeys(names, 0)
    with progress_over(len(labelling.modules(labelling.make().corpus)), "Modules") as advance:
        for line in labelling.run(output, execution):
            if "error" in line:
                failed[line["module"]] = line["error"]
                echo(f"mlgo-gym: {line['module']} has no labels: {line['error'].splitlines()[0]}", err=True)
            else:
                lines.append(line)
                total = {name: number + line.get(name, 0) for name, number in total.items()}
            advance(f"{total['labels']:,} labels" + (f", {len(failed)} failed" if failed else ""))
    if corpus in REFERENCES and not failed:
        check_reference(corpus, output)
    pairs = [pair for line in lines for pair in line.get("checked", ())]
    data = {"modules": len(lines), **total, "checked": pairs, "failed": failed}
    return Result(data, "\n".join(_counts(data)), failed)


def _counts(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about labels: their counts, and their agreement with single flips."""
    yield f"{data['labels']} labels of {data['decisions']} decisions in {data['modules']} modules"
    yield f"{data['compiles']} compiles, {data['seconds']:.0f} s of CPU time; {data['unbalanced']} without labels"
    if data["flips"]:
        yield f"{data['flips']} flips: {data['missed']} did not occur again, {data['ambiguous']} ambiguous"
    if pairs := data["checked"]:
        exact = sum(label == alone for label, alone in pairs) / len(pairs)
        near = sum(abs(label - alone) <= PADDING for label, alone in pairs) / len(pairs)
        yield f"{len(pairs)} labels against single flips: {exact:.0%} exact, {near:.0%} within {PADDING} bytes"


def _network(hidden: str, steps: int) -> NetworkSettings:
    """Return the settings of a network with hidden layers such as `64,32`."""
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


def imitation(
    labels: Annotated[list[Path], argument("Folders of mlgo-gym label, or Parquet files of labels.")],
    *,
    output: OutputOption,
    margin: MarginOption = None,
    validation: Annotated[
        str | None, option("Choose the margin by compiles of these modules.", metavar="CORPUS")
    ] = None,
    validation_modules: Annotated[int, option("Number of them, drawn at random.", min=1)] = 120,
    largest: Annotated[int, option("Skip modules with more bytes of bitcode than this.")] = 330_000,
    environment: str = "mlgo/Inline-v0",
    base: BaseOption = None,
    trees: TreeOptions,
    hidden: str = "128,64",
    steps: int = 20_000,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
) -> Result:
    """Train a network on labels: boosted trees, distilled into a small network.

    With --validation the margin is chosen by compiles, with a network that is
    not trained on these modules; OUTPUT.margins keeps them, and the same command
    resumes. Labels of evictions: the network rates each live range against
    clang's own choice; --margin is in percent of the function's cost.
    """
    if margin is not None and validation is not None:
        raise MlgoError("expected --margin or --validation, got both; use one of them")
    stored = read_labels(labels)
    folder = output.with_suffix(".margins")
    evicts, network, threads = rates_columns(stored), _network(hidden, steps), execution.jobs or 1
    fit: MarginFit = TreeImitation(network=network, base=base or "default", threads=threads, **trees)
    if evicts:
        fit = EvictionImitation(network=network, threads=threads, **trees)
    elif INLINING_DEFAULT not in stored.features:
        raise MlgoError(f"expected labels of inlining or evictions, got labels of {', '.join(stored.features[:9])}")
    choice = MarginChoice(fit, (margin or 0.0,))
    if validation is not None:
        arguments, margins = compiler.arguments(), MARGINS
        if evicts:
            environment, margins = "mlgo/RegAllocEvict-v0", EVICTION_MARGINS
        corpus = make_environment(environment, {**arguments, "corpus": validation}).corpus
        valid = corpus.subset(drawn_modules(corpus, trees["seed"], largest, validation_modules))
        choice = MarginChoice(fit, margins, valid, folder, environment, arguments, execution)
    with training_monitor(output) as monitor:
        run_pipeline(lambda *_: stored, fit.fit, choice, output=output, monitor=monitor)
    facts, margin_facts = monitor.results["network"][0], monitor.results["margin"][0]
    lines = [*margin_lines(margin_facts), f"{facts['labels']} labels of {facts['modules']} modules"]
    if "estimates" in facts:
        lines[-1] += "; change by the labels:"
        lines += [f"  {name:12} {change:+8.2%}" for name, change in facts["estimates"].items()]
    lines.append(f"wrote {output}, margin {margin_facts['margin']:g}")
    if stored.trained_on is None:
        lines.append("no list of training modules: some labels lack the digests of their modules")
    return Result({"output": output, **facts, **margin_facts}, "\n".join(lines))


def clone(
    *,
    output: OutputOption,
    environment: str = "mlgo/Inline-v0",
    corpus: str = "builtin:train",
    expert: Annotated[str, option("Policy to imitate; default is clang.")] = "default",
    imitation: Annotated[Values, OptionsOf(imitate, "rounds episodes label_smoothing seed")],
    see_default: Annotated[bool, option("Let the network see clang's own choice.")] = False,
    callee_features: bool = False,
    hidden: str = "64,32",
    steps: int = 2000,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
) -> Result:
    """Imitate another policy by behaviour cloning and DAgger, as a start for reinforcement learning."""
    arguments = {"corpus": corpus, **compiler.arguments(callee_features=callee_features)}
    with training_monitor(output) as monitor:
        imitate(
            make_environment(environment, with_callee_features(arguments, [expert])),
            expert,
            settings=_network(hidden, steps),
            exclude_features=() if see_default else (INLINING_DEFAULT,),
            execution=execution,
            output=output,
            monitor=monitor,
            **imitation,
        )
    agreement = [round_results["agreement"] for round_results in monitor.results["rollouts"]]
    text = f"agreement with the expert by round: {', '.join(f'{share:.2%}' for share in agreement)}\nwrote {output}"
    return Result({"output": output, "agreement": agreement}, text)


def policy(
    *,
    output: Annotated[Path, option("Folder for everything; the same command resumes from it.")],
    corpus: Annotated[str, option("Corpus without a level.")] = "builtin:train,catalogue:train",
    level: Annotated[str, option("Optimisation level that the policy is for.")] = "Oz",
    callee_features: bool = False,
    extra_levels: Annotated[
        list[str] | None,
        option(
            "Another level to collect labels at; repeat for several. The policy's own level: no other.",
            "--extra-level",
            show_default="Oz for --level Os",
        ),
    ] = None,
    rounds: Annotated[int, option("Rounds of labels, each around the last network.", min=1)] = 4,
    labels: Annotated[
        Values,
        OptionsOf(
            *(Labelling, "compiles seconds largest max_per_project limit"),
            seconds=3.0,
            largest=330_000,
            max_per_project=90,
        ),
    ],
    margin: MarginOption = None,
    base: BaseOption = None,
    trees: TreeOptions,
    hidden: str = "128,64",
    steps: int = 20_000,
    execution: ExecutionOptions,
    compiler: CompilerOptions,
) -> Result:
    """Train a policy from a corpus: label, train, label around the new network, and so on.

    The first labels are taken around the base. The margin is chosen by compiles of the validation split, with a network
    that is not trained on it. `OUTPUT/policy.safetensors` is the policy, `OUTPUT/policy.json` its model card.
    """
    specs = parse_corpora(corpus)
    if any(spec.optimize for spec in specs):
        raise MlgoError(f"expected --corpus without a level, got {corpus!r}; use --level")
    levels = dict.fromkeys([level, *(EXTRA_LEVELS.get(level, []) if extra_levels is None else extra_levels)])
    corpora = {name: ",".join(str(spec.at(name)) for spec in specs) for name in levels}
    start = Base.parse(base or BASES.get(level, "default")).name
    labelling = Labelling(
        ",".join(dict.fromkeys(corpora.values())),
        start,
        arguments=compiler.arguments(callee_features=callee_features),
        seed=trees["seed"],
        **labels,
    )
    fit = TreeImitation(network=_network(hidden, steps), base=start, threads=execution.jobs or 1, **trees)
    training = PolicyTraining(labelling, fit, rounds, MARGINS if margin is None else (margin,), corpora[level])
    with training_monitor(output / "training") as monitor:
        file = training.run(output, execution, monitor)
    margin_facts = monitor.results["margin"][0]
    text = "\n".join([*margin_lines(margin_facts), f"wrote {file}, margin {margin_facts['margin']:g}"])
    return Result({"output": file, **margin_facts}, text)
