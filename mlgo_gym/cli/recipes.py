"""`mlgo-gym search`, `recipes`, `link-facts` and `cc-stats`: inputs and counters of `mlgo-clang`."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from mlgo_clang.counters import read_counters, remove_counters
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import aligned, echo, print_result
from mlgo_gym.cli.options import environment_arguments
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus import open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.folder import DESCRIPTION_FILE
from mlgo_gym.episode.attribution.recipe import stored_recipes
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.llvm.link_facts import LinkFacts, objects_in
from mlgo_gym.llvm.linker import Folding
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch, SearchResult
from mlgo_gym.search.verification import verify_recipe

group = typer.Typer(name="recipes", help="Decisions that searches found.", no_args_is_help=True)

Folder = Annotated[Path, Argument(help="Folder of recipes, as for mlgo-clang --mlgo-recipes=.")]


@group.command("list")
def list_recipes(folder: Folder, *, as_json: options.Json = False) -> None:
    """List recipes: cost of clang alone and with the recipe, decisions, and compiles of the search.

    The costs are those of the metric of the search; the total has bytes of executable sections.
    """
    heading = ("digest", "clang", "recipe", "change", "decisions", "compiles", "metric", "module")
    rows: list[tuple[object, ...]] = [heading]
    data: list[dict[str, object]] = []
    clang = text = 0
    for path, recipe in stored_recipes(folder):
        if recipe is None:
            rows.append((path.stem[:16], *[""] * 6, "damaged"))
            data.append({"digest": path.stem, "damaged": True})
            continue
        clang, text = clang + recipe.baseline_text, text + recipe.text
        cost, plain = recipe.costs
        counts = {"decisions": len(recipe.answers), "compiles": recipe.compiles}
        numbers = round(plain), round(cost), f"{recipe.change:+8.2%}", *counts.values()
        rows.append((recipe.digest[:16], *numbers, recipe.metric, recipe.module))
        sizes = {"clang": recipe.baseline_text, "recipe": recipe.text, "metric": recipe.metric, "change": recipe.change}
        data.append({"digest": recipe.digest, "module": recipe.module, **sizes, **counts})
    rows.append(("total", clang, text, f"{text / clang - 1 if clang else 0:+8.2%}", "", "", "", ""))
    print_result(as_json, data, aligned(rows))


@group.command()
def verify(folder: Folder, *, clang: options.Clang = None, as_json: options.Json = False) -> None:
    """Compile each module with its recipe, and compare the bytes.

    Recipes with flags that do more than shape code are not run. Exit status 1: a recipe failed.
    """
    toolchain = find_toolchain(clang)
    stored = list(stored_recipes(folder))
    problems: dict[str, str] = {}
    with progress_over(len(stored), "Recipes") as advance:
        for path, recipe in stored:
            problem = "damaged" if recipe is None else verify_recipe(path, recipe, toolchain)
            if problem:
                problems[path.stem] = problem
            advance(f"{len(problems)} failed")
    lines = [f"{digest[:16]}: {problem}" for digest, problem in problems.items()]
    lines.append(f"{len(stored) - len(problems)} recipes verified, {len(problems)} failed")
    print_result(as_json, {"verified": len(stored) - len(problems), "problems": problems}, "\n".join(lines), problems)


def cc_stats(
    *,
    every: Annotated[bool, Option("--all", help="Sum of the last 32 builds, or of those since --zero.")] = False,
    zero: Annotated[bool, Option("--zero", help="Reset the counters of all builds.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show how many compiles of the last build used a policy, and how many did not, by reason.

    A build is one run of make, ninja or another such program, else all commands
    of one shell. The counters are in the cache folder.
    """
    ordered = sorted(read_counters(last=not every).items(), key=lambda item: (item[0].startswith("because "), -item[1]))
    lines = [f"{number:8}  {name}" for name, number in ordered]
    if zero:
        remove_counters()
    print_result(as_json, dict(ordered), "\n".join(lines or ["mlgo-clang has compiled nothing"]))


def link_facts(
    builds: Annotated[
        list[str],
        Argument(help="Folders of builds, objects, archives, or corpora of recorded builds; they add up."),
    ],
    *,
    output: Annotated[Path, Option(help="File to write.")],
    icf: Annotated[
        Folding, Option(help="Identical code folding of the link; functions that it merges count as copies.")
    ] = "none",
    clang: options.Clang = None,
    trust_flags: options.TrustFlags = False,
    as_json: options.Json = False,
) -> None:
    """Count the objects that define each weak function, and the references to it.

    The policy last-call uses the facts: MLGO_LINK_FACTS=FILE, or mlgo-clang
    --mlgo-link-facts=FILE. Build once as usual, write the facts, and build
    again; or take the facts of the last release.
    """

    def objects() -> Iterator[bytes]:
        for build in builds:
            path = Path(build)
            if not path.exists() or path.suffix == ".bc" or (path / DESCRIPTION_FILE).is_file():
                yield from _plain_objects(build, clang, trust_flags)
            else:
                yield from objects_in(path)

    facts = LinkFacts.of_objects(objects(), icf)
    facts.write(output)
    twins = facts.twins
    once = sum(copies - twins.get(name, 0) == 1 for name, (copies, _) in facts.counts.items())
    text = f"{output}: {len(facts.counts)} weak functions, {once} of them in one object"
    if icf != "none":
        text += f", {len(twins)} merged with others by --icf={icf}"
    print_result(as_json, {"functions": len(facts.counts), "in_one_object": once, "merged": len(twins)}, text)


def _plain_objects(corpus: str, clang: str | None, trust_flags: bool) -> Iterator[bytes]:
    toolchain = find_toolchain(clang)
    modules = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    with progress_over(len(modules), "Modules") as advance:
        for module in modules:
            yield plan(module, toolchain).plain_object()
            advance()


def search(
    environment: options.EnvironmentArgument,
    *,
    corpus: options.Corpus = "builtin",
    metric: options.Metric = None,
    module: Annotated[list[str] | None, Option(help="Module to search; repeatable. Default: all.")] = None,
    compiles: Annotated[int, Option(help="Maximum number of compiles per module (≥ 1).", min=1)] = 50,
    seconds: Annotated[float | None, Option(help="Maximum time per module, in seconds. Default: no limit.")] = None,
    start: Annotated[str, Option(help="Policy to start from.")] = "default",
    recipes: Annotated[
        Path | None, Option(help="Folder for a recipe of each module. Default: none is written.")
    ] = None,
    seed: Annotated[int, Option(help="Seed of the random generator, and of random policies.")] = 0,
    jobs: options.Workers = None,
    ray: options.Ray = None,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    output: Annotated[Path | None, Option(help="File for the results; the same command resumes from it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Search the decisions of each module of a corpus with the least cost.

    A replay in a new compile verifies each result. A recipe is a text file with
    the decisions of a module: `recipes verify` repeats it, and `mlgo-clang
    --mlgo-recipes=FOLDER` uses it in builds. Exit status 1: a module failed, or
    a replay had another cost.
    """
    arguments = environment_arguments(clang, settings, trust_flags, link_view, corpus=corpus, metric=metric)
    campaign = CorpusSearch(environment, arguments, compiles, seconds, seed, tuple(module or ()), start, recipes)
    results: list[SearchResult] = []
    if not as_json:
        echo(f"{'decisions':>9} {'compiles':>8} {'clang':>10} {'found':>10} {'change':>8}  module")
    with progress_over(len(campaign.modules()), "Modules") as advance:
        for result in campaign.run(output, Execution(jobs, ray)):
            results.append(result)
            if not as_json:
                echo(_row(result))
            advance()
    done = [result for result in results if result.error is None]
    summary = ""
    if done:
        change = Change(tuple((result.cost, result.baseline) for result in done))
        compiled = sum(result.compiles for result in done)
        summary = (
            f"{len(done)} modules: total {change.total:+.2%}, geometric mean {change.mean:+.2%}, {compiled} compiles"
        )
    failed = len(done) < len(results) or not all(result.verified for result in done)
    print_result(as_json, list(map(asdict, results)), summary, failed)


def _row(result: SearchResult) -> str:
    if result.error is not None:
        return f"{result.module} failed: {result.error.splitlines()[0]}"
    mark = "" if result.verified else "  replay differs"
    return (
        f"{len(result.actions):9} {result.compiles:8} {result.baseline:10.0f} {result.cost:10.0f} "
        f"{-result.reduction:+8.2%}  {result.module}{mark}"
    )
