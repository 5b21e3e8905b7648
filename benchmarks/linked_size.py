"""Agreement of `estimated-linked` with real links, and the linked size of policies, over recorded builds.

    python -m benchmarks.linked_builds --sources sources --work builds
    python -m benchmarks.linked_size --work builds --output docs/results/linked_size.json

Compiles each build of `benchmarks.linked_builds` with plain clang and with each policy, links it again, and prints the
changes of the objects, of the estimate and of the linked files. The estimate without link steps takes all modules of
the build as one linked file. Objects stay in the work folder, so an interrupted run continues.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from benchmarks.linked_builds import IN_CATALOGUE
from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.corpus.recording.links import LINKS_FILE, read_links, relink
from mlgo_gym.episode.setup import Setup
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.storage.cache import write_atomically

POLICIES = ("threshold:0", "never", "inline-oz-fast", "inline-oz")
BUNDLED = ("inline-oz-fast", "inline-oz", "inline-os-fast", "inline-os")
ESTIMATE, WITHOUT_LINKS = "estimate", "estimate without links"


def compiled_objects(corpus: Path, policy: str, folder: Path) -> dict[str, Path]:
    """Return the objects of a build by module, compiled under a policy or by `PLAIN` clang, and kept in a folder."""
    policies = {} if policy == PLAIN else {policy: policy}
    evaluated = EvaluatedPolicies(RunnerSettings("mlgo/Inline-v0", str(corpus), {}, policies, 0))
    objects: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as scratch:
        compiled = PolicyObjects(evaluated, policy, Path(scratch))
        for name in evaluated.env.corpus.names:
            objects[name] = folder / f"{name.replace('/', '_')}.o"
            if not objects[name].exists():
                write_atomically(objects[name], compiled.file(name).read_bytes())
    evaluated.close()
    return objects


def linked_text(corpus: Path, objects: Mapping[str, Path], setup: Setup) -> dict[str, int]:
    """Return the bytes of the executable sections of each linked file."""
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        libraries: dict[str, Path] = {}
        for number, link in enumerate(read_links(corpus)):
            output = Path(scratch, str(number))
            relink(link, corpus, objects, output, setup.toolchain, libraries=libraries, trust_flags=True)
            libraries[link.output] = output
            sizes[link.output] = object_sizes(output.read_bytes()).text
    return sizes


def estimates(corpus: Path) -> tuple[Setup, dict[str, Callable[[str, bytes | None], float]]]:
    """Return the setup of a build, and the estimates of a module's object with and without the link steps."""
    setups = {}
    with tempfile.TemporaryDirectory() as scratch:
        unlinked = Path(scratch, corpus.name)
        shutil.copytree(corpus, unlinked, ignore=shutil.ignore_patterns(LINKS_FILE, "links"))
        for kind, folder in ((ESTIMATE, corpus), (WITHOUT_LINKS, unlinked)):
            arguments = {"corpus": str(folder), "metric": "estimated-linked", "compile_options": {"trust_flags": True}}
            setups[kind] = make_environment("mlgo/Inline-v0", arguments).setup
            cost = setups[kind].project_costs["estimated-linked"]
            # Reads all modules of the build while they exist.
            for name in setups[kind].corpus.names:
                cost.cost(name)
    costs: dict[str, Callable[[str, bytes | None], float]] = {}
    for kind, setup in setups.items():
        costs[kind] = setup.project_costs["estimated-linked"].cost
    return setups[ESTIMATE], costs


def measure(corpus: Path, policies: tuple[str, ...], objects: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of a build by policy, those that are known unchanged."""
    rows: dict[str, Any] = dict(known)
    missing = [policy for policy in (PLAIN, *policies) if policy not in rows]
    if not missing:
        return rows
    setup, costs = estimates(corpus)
    linked = {name for link in read_links(corpus) for name in link.modules}
    for policy in missing:
        folder = objects / corpus.parent.name / corpus.name / policy_identity(policy)[:40].replace("/", "_")
        files = compiled_objects(corpus, policy, folder)
        data = {name: path.read_bytes() for name, path in files.items() if name in linked}
        rows[policy] = {
            "modules": len(data),
            "objects": sum(object_sizes(each).text for each in data.values()),
            **{kind: sum(cost(name, each) for name, each in data.items()) for kind, cost in costs.items()},
            "linked": linked_text(corpus, files, setup),
        }
    return rows


def change(rows: Mapping[str, Any], policy: str, kind: str) -> float:
    """Return the change of a size in bytes against plain clang."""
    after, before = (
        float(sum(rows[each][kind].values()) if kind == "linked" else rows[each][kind]) for each in (policy, PLAIN)
    )
    return after - before


def agreement(builds: Mapping[str, Mapping[str, Any]], kind: str, policies: Collection[str]) -> dict[str, float]:
    """Return how well a size predicts the relative change of the linked files, over builds and policies.

    Returns:
        `pairs`; `rank`, Spearman's correlation of relative changes; `ratio`, the median of predicted to measured
        changes; `within`, the share of pairs with a ratio from one half to two; `sign`, the share of equal signs.
        Pairs without a measured change have no ratio and no sign.
    """
    predicted, measured, ratios = [], [], []
    for rows in builds.values():
        base = sum(rows[PLAIN]["linked"].values())
        for policy in rows:
            if policy in policies:
                pair = change(rows, policy, kind), change(rows, policy, "linked")
                predicted.append(pair[0] / base)
                measured.append(pair[1] / base)
                if pair[1]:
                    ratios.append(pair[0] / pair[1])
    ordered = sorted(ratios)
    middle = ordered[len(ordered) // 2] if ordered else math.nan
    return {
        "pairs": len(predicted),
        "rank": round(float(spearmanr(predicted, measured).statistic), 4),
        "ratio": round(middle, 4),
        "within": round(sum(0.5 <= ratio <= 2 for ratio in ratios) / max(len(ratios), 1), 4),
        "sign": round(sum(ratio > 0 for ratio in ratios) / max(len(ratios), 1), 4),
    }


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the recorded builds and of the objects")
    parser.add_argument("--level", default="Oz", help="level of the builds")
    parser.add_argument("--policies", nargs="+", default=POLICIES, help="policies to compare with plain clang")
    parser.add_argument("--only", nargs="+", help="builds to measure; default: all")
    parser.add_argument("--output", type=Path, help="JSON file to extend")
    options = parser.parse_args()
    results: dict[str, Any] = (
        json.loads(options.output.read_bytes()) if options.output and options.output.exists() else {}
    )
    builds = results.setdefault(options.level, {}).setdefault("builds", {})
    names = options.only or sorted(path.name for path in (options.work / options.level).iterdir() if path.is_dir())
    table = Table({"build": "<12", "policy": "<20", "objects": ">9.2%", "estimate": ">9.2%", "linked": ">9.2%"})
    for name in names:
        if name.startswith("."):
            continue
        corpus = options.work / options.level / name
        builds[name] = rows = measure(corpus, tuple(options.policies), options.work / "objects", builds.get(name, {}))
        for policy in rows:
            if policy != PLAIN:
                kinds = ("objects", ESTIMATE, "linked")
                before = [rows[PLAIN]["objects"], rows[PLAIN][ESTIMATE], sum(rows[PLAIN]["linked"].values())]
                cells = [change(rows, policy, kind) / size for kind, size in zip(kinds, before, strict=True)]
                table.row(name, policy, *cells)
        for group, chosen in (("all", set(options.policies)), ("bundled", set(options.policies).intersection(BUNDLED))):
            results[options.level].setdefault("agreement", {})[group] = {
                kind: agreement(builds, kind, chosen) for kind in ("objects", ESTIMATE, WITHOUT_LINKS)
            }
        results[options.level]["in_catalogue"] = sorted(IN_CATALOGUE & builds.keys())
        results[options.level]["modules"] = sum(rows[PLAIN]["modules"] for rows in builds.values())
        write_json(options.output, results)
    print(json.dumps(results[options.level]["agreement"], indent=1))


if __name__ == "__main__":
    main()
