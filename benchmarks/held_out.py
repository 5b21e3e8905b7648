"""Rules and trained networks on whole projects that no network was trained on; writes docs/results/held_out.json.

    python -m benchmarks.held_out --work runs/held_out --jobs 2

Each policy compiles each module once. The sets are disjoint. The same command resumes, and a row in the file stays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import RESULTS, Table, command_line, facts, read_json, write_result
from benchmarks.protocol import LEVELS
from mlgo_gym import Execution, evaluate, open_corpus
from mlgo_gym.training.pipeline import drawn_modules

SETS = {
    "six": (
        *("pypi:quickjs==1.19.4", "pypi:tree-sitter==0.25.2", "pypi:cmarkgfm==2025.10.22", "pypi:libsass==0.23.0"),
        *("pypi:uvloop==0.22.1", "pypi:yajl==0.3.5"),
    ),
    "others": (
        *("pypi:pymunk==7.3.1", "pypi:pyroaring==1.2.0", "pypi:marisa-trie==1.4.1", "pypi:annoy==1.17.3"),
        *("pypi:python-crfsuite==0.9.12", "pypi:python-rapidjson==1.25", "pypi:cityhash==0.4.10"),
        *("pypi:editdistance==0.8.1", "pypi:bitarray==3.12.3", "pypi:pyahocorasick==2.3.1", "pypi:regex==2026.11.15"),
        *("pypi:ecos==2.0.14", "pypi:datrie==0.8.3", "pypi:pycosat==0.6.6", "pypi:fastcluster==1.3.0"),
        *("pypi:hnswlib==0.8.0", "pypi:levenshtein==0.27.5", "pypi:pyworld==0.3.5"),
    ),
}
"""Corpora of each set, without a level. The catalogue contains another version of marisa, as a part of opencc."""

TESTED = {
    "C": ("apsw", "blosc", "lz4", "numpy", "xxhash", "zopfli", "zstd"),
    "C++": ("kiwisolver", "lightgbm", "pysimdjson", "snappy"),
}
"""Corpora of the test part of the catalogue, by language: version 2 of the benchmark. A sample of each is measured."""

MODULES, LARGEST = 5, 60_000
"""Number of modules of a project in a sample, and their maximum size in bytes of bitcode."""

RULES = ("last-call", "threshold:5")
"""Rules; the others are compared with the first. Samples also have `default`."""

NETWORKS = {f"network, seed {seed}": Path(f"runs/networks/{seed}.safetensors") for seed in range(5)}
"""Files of networks for -Oz that docs/results/bundled_policies.md trains; those that exist are measured on `others`."""


def measure(
    corpora: tuple[str, ...], level: str, policy: str, jobs: int, output: Path, part: str = "", **arguments: Any
) -> dict[str, list[Any]]:
    """Return the size of each module with a decision by the policy and by plain clang, and its project.

    The part is `:test` for a sample of the test part; further arguments are those of the environment.

    Raises:
        SystemExit: a compile failed.
    """
    corpus = open_corpus(",".join(f"{name}@{level}{part}" for name in corpora))
    if part:
        corpus = corpus.subset(drawn_modules(corpus, 0, LARGEST, max_per_project=MODULES))
    execution, environment = Execution(jobs=jobs), "mlgo/Inline-v0"
    result = evaluate(
        environment, policies=[policy], corpus=corpus, execution=execution, output=output, env_kwargs=arguments
    )
    if result.failures:
        raise SystemExit(f"{policy}: {len(result.failures)} modules failed, first {result.failures[0]}")
    change = result.summaries()[0].changes[result.metrics[0]]
    return {"modules": list(change.modules), "projects": list(change.clusters), "sizes": list(map(list, change.pairs))}


def main() -> None:
    """Measure the rows that the file lacks, and print them."""
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, default=Path("runs/held_out"), help="folder of the evaluations")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--output", type=Path, default=RESULTS / "held_out.json", help="JSON file of the results")
    parser.add_argument("--sets", nargs="+", choices=(*SETS, *TESTED), default=[*SETS, *TESTED], help="default: all")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="default: both")
    options = parser.parse_args()
    results = read_json(options.output, {})
    table = Table({"set": "<8", "level": "<5", "policy": "<16", "modules": ">7", "mean": ">+8.2%", "total": ">+8.2%"})
    for name, part in [(name, "") for name in SETS] + [(name, ":test") for name in TESTED]:
        for level in options.levels if name in options.sets else ():
            rows = results.setdefault(name, {}).setdefault(level, {})
            policies = {rule: rule for rule in (*RULES, *(("default",) if part else ()))}
            if (name, level) == ("others", "Oz"):
                policies |= {title: f"mlp:{file}" for title, file in NETWORKS.items() if file.exists()}
            for policy, spec in policies.items():
                if policy not in rows:
                    output = options.work / f"{name}-{level}-{policy.replace(':', '-')}"
                    rows[policy] = measure({**SETS, **TESTED}[name], level, spec, options.jobs, output, part)
                    write_result(options.output, json.dumps(results, separators=(",", ":")) + "\n")
                row = facts([tuple(pair) for pair in rows[policy]["sizes"]], rows[policy]["projects"])
                table.row(name, level, policy, row["modules"], row["mean"], row["total"])


if __name__ == "__main__":
    main()
