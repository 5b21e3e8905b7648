"""Rules and trained networks on whole projects that no network was trained on; writes docs/results/held_out.json.

    python -m benchmarks.held_out --work runs/held_out --jobs 2

Each policy compiles each module once. The sets are disjoint. The same command resumes, and a row in the file stays.
`--choose unnamed` applies the rule of benchmarks/sources/unnamed_projects.json to its candidates, and `--choose debian`
that of debian_libraries.json; both measure nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measuring import RESULTS, SOURCES, Table, command_line, facts, read_json, write_json, write_result
from benchmarks.protocol import LEVELS
from mlgo_gym import Execution, evaluate, open_corpus
from mlgo_gym.corpus.datasets.catalogue import dataset_names
from mlgo_gym.corpus.datasets.sources import fetch_source
from mlgo_gym.corpus.inspection import function_digests
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import make_environment
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

CHOICES = {"unnamed": SOURCES / "unnamed_projects.json", "debian": SOURCES / "debian_libraries.json"}
"""Rules that chose projects that nobody here has named, with their candidates and choices: two sets, by language."""

CHOSEN = {
    f"{kind} {language}": tuple(projects)
    for kind, file in CHOICES.items()
    for language, projects in read_json(file, {}).get("projects", {}).items()
}

BUILD = {"DEB_BUILD_OPTIONS": "nocheck", "DEB_CFLAGS_SET": "-O2", "DEB_CXXFLAGS_SET": "-O2", "DEB_CPPFLAGS_SET": ""}
"""Environment variables of their builds."""

SAMPLE = (3, 300_000)
"""Number of modules of a project of `CHOSEN`, and their maximum size in bytes of bitcode."""

RULES = ("last-call", "threshold:5")
"""Rules; the second is compared with the first."""

NETWORKS = {f"network, seed {seed}": Path(f"runs/networks/{seed}.safetensors") for seed in range(5)}
"""Files of networks for -Oz that docs/results/bundled_policies.md trains; those that exist are measured on `others`."""


def located(name: str, level: str, work: Path) -> str:
    """Return the specification of a corpus; a Debian source package, `debian:NAME=VERSION`, is fetched and built once.

    This needs root and `deb-src` lines of `apt-get`, and installs tools. A build has ten minutes.

    Raises:
        CorpusError: a command failed.
    """
    kind, _, package = name.partition(":")
    if kind != "debian":
        return f"{name}@{level}"
    short = package.partition("=")[0]
    corpus, source = work.absolute() / "corpora" / f"{short}-{level}", work.absolute() / f"{short}-{level}" / short
    if not corpus.exists():
        shutil.rmtree(source, ignore_errors=True)
        source.parent.mkdir(parents=True, exist_ok=True)
        program = str(Path(sys.executable).with_name("mlgo-gym"))
        record = ["timeout", "600", program, "corpus", "record", "--target", "native"]
        for command in (
            ["apt-get", "build-dep", "--yes", "--arch-only", "--build-profiles=nocheck", package],
            ["apt-get", "source", "--download-only", package],
            ["sh", "-c", f"dpkg-source --extract {short}_*.dsc {short}"],
            [*record, f"--optimize={level}", "--root=..", f"--output={corpus}", "--", "debian/rules", "build"],
        ):
            folder = source if command[0] == "timeout" else source.parent
            done = subprocess.run(command, cwd=folder, env=os.environ | BUILD, capture_output=True, text=True)
            if done.returncode:
                raise CorpusError(f"{' '.join(command[:2])} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return str(corpus)


def measure(
    corpora: tuple[str, ...],
    level: str,
    policy: str,
    jobs: int,
    output: Path,
    part: str = "",
    sample: tuple[int, int] | None = None,
    **arguments: Any,
) -> dict[str, list[Any]]:
    """Return the size of each module with a decision by the policy and by plain clang, and its project.

    The part is empty or `:test`, and the sample as `SAMPLE`; further arguments are those of the environment.

    Raises:
        SystemExit: a compile failed.
    """
    corpus = open_corpus(",".join(located(name, level, output.parent) + part for name in corpora))
    if sample is not None:
        corpus = corpus.subset(drawn_modules(corpus, 0, sample[1], max_per_project=sample[0]))
    execution, environment = Execution(jobs=jobs), "mlgo/Inline-v0"
    result = evaluate(
        environment, policies=[policy], corpus=corpus, execution=execution, output=output, env_kwargs=arguments
    )
    if result.failures:
        raise SystemExit(f"{policy}: {len(result.failures)} modules failed, first {result.failures[0]}")
    change = result.summaries()[0].changes[result.metrics[0]]
    return {"modules": list(change.modules), "projects": list(change.clusters), "sizes": list(map(list, change.pairs))}


def choose(kind: str, work: Path, jobs: int) -> None:
    """Apply a rule of `CHOICES` to its candidates, and write the choice, and why each other candidate left.

    The folder keeps digests of functions and failed builds, which are not repeated.
    """
    content, toolchain = read_json(CHOICES[kind], {}), find_toolchain()
    (work / "functions").mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = read_json(work / "failed.json", {})
    left, languages = dict(failed), dict[str, str]()
    for name in (name for name in content["candidates"] if name not in failed):
        try:
            package, _, version = name.removeprefix("pypi:").partition("==")
            if kind == "unnamed" and fetch_source(package, version).path.stat().st_size > 2 << 20:
                left[name] = "its source distribution is larger than 2 MiB"
                continue
            env = make_environment("mlgo/Inline-v0", {"corpus": located(name, "Oz", work)})
        except CorpusError as error:
            known = re.search(r"'\S+' file not found|the build (succeeded|ended)[^:;]*", str(error))
            left[name] = failed[name] = known[0] if known else str(error).partition(";")[0]
            write_json(work / "failed.json", failed)
            continue
        modules = [env.corpus.module(module) for module in env.corpus.names]
        languages[name] = Counter(str(module.metadata["language"]) for module in modules).most_common(1)[0][0]
        small = [module for module in modules if kind == "unnamed" or env.corpus.size(module.name) <= SAMPLE[1]]
        if not any(sum(env.decisions(module).values()) for module in small):
            left[name] = "no module has a decision"
    digests: dict[str, dict[str, int]] = {}
    earlier = (*CHOSEN["unnamed C"], *CHOSEN["unnamed C++"]) if kind == "debian" else ()
    for name in (*dataset_names(), *SETS["six"], *SETS["others"], *earlier, *languages):
        file = work / "functions" / f"{name}.json"
        if not file.exists():
            projects, _ = function_digests(open_corpus(located(name, "Oz", work)), toolchain, jobs=jobs)
            write_json(file, {digest: size for project in projects.values() for digest, size in project.items()})
        digests[name] = read_json(file, {})
    widespread = 4 if kind == "unnamed" else len(digests) + 1
    owners = Counter(digest for project in digests.values() for digest in project)
    seen = {digest for name, project in digests.items() if name not in languages for digest in project}
    chosen: dict[str, list[str]] = {"C": [], "C++": []}
    for name in (name for name in languages if name not in left):
        own, language = digests[name], languages[name]
        common = sum(size for digest, size in own.items() if digest in seen and owners[digest] < widespread)
        if common >= 0.01 * sum(own.values()) > 0:
            left[name] = f"{common / sum(own.values()):.1%} of its code is in other projects"
        elif len(chosen[language]) == (8 if (kind, language) == ("debian", "C") else 12):
            left[name] = f"the {len(chosen[language])} projects in {language} were found before it"
        else:
            chosen[language].append(name)
            seen |= own.keys()
    write_json(CHOICES[kind], content | {"projects": chosen, "left": left})


def main() -> None:
    """Measure the rows that the file lacks, and print them."""
    names = [*SETS, *CHOSEN]
    parser = command_line(__doc__)
    parser.add_argument("--choose", choices=CHOICES, help="choose projects that nobody here has named")
    parser.add_argument("--work", type=Path, default=Path("runs/held_out"), help="folder of the evaluations")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--output", type=Path, default=RESULTS / "held_out.json", help="JSON file of the results")
    parser.add_argument("--sets", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="default: both")
    options = parser.parse_args()
    if options.choose:
        choose(options.choose, options.work, options.jobs)
        return
    results = read_json(options.output, {})
    table = Table({"set": "<11", "level": "<5", "policy": "<16", "modules": ">7", "mean": ">+8.2%", "total": ">+8.2%"})
    for name, corpora in {**SETS, **CHOSEN}.items():
        for level in options.levels if name in options.sets else ():
            rows = results.setdefault(name, {}).setdefault(level, {})
            policies = dict(zip(RULES, RULES, strict=True))
            sample = SAMPLE if name in CHOSEN else None
            if (name, level) == ("others", "Oz"):
                policies |= {title: f"mlp:{file}" for title, file in NETWORKS.items() if file.exists()}
            for policy, spec in policies.items():
                if policy not in rows:
                    output = options.work / f"{name.replace(' ', '-')}-{level}-{policy.replace(':', '-')}"
                    rows[policy] = measure(corpora, level, spec, options.jobs, output, sample=sample)
                    write_result(options.output, json.dumps(results, separators=(",", ":")) + "\n")
                row = facts([tuple(pair) for pair in rows[policy]["sizes"]], rows[policy]["projects"])
                table.row(name, level, policy, row["modules"], row["mean"], row["total"])


if __name__ == "__main__":
    main()
