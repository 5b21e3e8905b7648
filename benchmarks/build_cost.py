"""CPU time of whole builds and of single files: plain clang, a plugin, the wrapper and recipes.

    python -m benchmarks.build_cost --work runs/ten --only yaml-cpp,libsass --variants Oz,wrapper --files 12
    python -m benchmarks.build_cost --work runs/ten --clang clang-22 --variants Oz,plugin,wrapper

Builds the programs of `benchmarks.ten_programs` in its folder. Each round builds every variant, and the least time of a
variant counts. `--files` also times the compiles of the files that plain clang compiles fastest. Recipes must exist.
`two_compiles` in the JSON is the earlier ratio of the wrapper: it compiled twice, and Python decided.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, cpu_seconds, write_json
from benchmarks.ten_programs import ROOT, VARIANTS, Bench, Variant, add_build_options, prepare_plugins
from benchmarks.ten_projects import PROJECTS

RESULTS = ROOT / "docs" / "results" / "build_cost.json"


def file_seconds(bench: Bench, variants: Mapping[str, Variant], number: int, rounds: int = 5) -> dict[str, Any]:
    """Return the CPU seconds of each variant for the files that the first variant compiles fastest."""
    compiles: dict[str, list[str]] = {}
    for line in bench.compiles.read_text().splitlines():
        words = line.split("\037")[:-1]
        sources = [word for word in words if word.endswith((".c", ".cpp"))]
        folder = Path(words[0]) if words else Path()
        if "-c" in words and len(sources) == 1 and folder.is_dir() and (folder / sources[0]).exists():
            compiles[Path(sources[0]).name] = words
    environments = {name: bench.environment(variant) for name, variant in variants.items()}

    def seconds(name: str, words: list[str]) -> float:
        compiler = shlex.split(environments[name][words[1]])
        start = cpu_seconds()
        command = [*compiler, *words[2:], environments[name]["BENCH_LEVEL"]]
        subprocess.run(command, cwd=words[0], env=environments[name], stderr=subprocess.DEVNULL, check=True)
        return cpu_seconds() - start

    first = next(iter(variants))
    # A small object compiles fast: only twice as many files as are chosen are compiled for the choice.
    smallest = sorted(compiles.items(), key=lambda each: _object(each[1]).stat().st_size)[: 2 * number]
    plain = {file: seconds(first, words) for file, words in smallest}
    found = {}
    for file in sorted(plain, key=plain.__getitem__)[:number]:
        times = [{name: seconds(name, compiles[file]) for name in variants} for _ in range(rounds)]
        found[file] = {name: min(each[name] for each in times) for name in variants}
    return found


def _object(words: list[str]) -> Path:
    """Return the object of a compile."""
    return Path(words[0]) / words[words.index("-o") + 1]


def show(rows: Mapping[str, Any]) -> None:
    """Print the tables: CPU time against the first variant of each row."""
    table = Table({"program": "<10", "clang": "<9", "variant": "<12", "seconds": ">8.2f", "ratio": ">6.2f"})
    for row in rows.values():
        plain = min(next(iter(row["seconds"].values())))
        for name, seconds in row["seconds"].items():
            table.row(row["program"], row["clang"], name, min(seconds), min(seconds) / plain)
    for row in rows.values():
        if row["files"]:
            first, *others = row["seconds"]
            print(f"\n{row['program']}: CPU milliseconds of the fastest files, and more of the others")
            table = Table({"file": "<28", first: ">8.0f", **dict.fromkeys(others, ">+12.0f")})
            for file, found in row["files"].items():
                table.row(file, 1000 * found[first], *(1000 * (found[name] - found[first]) for name in others))


def main() -> None:
    """Time the builds, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="yaml-cpp,libsass", help="programs, separated by commas")
    parser.add_argument("--variants", default="Oz,wrapper", help="variants, separated by commas; the first is plain")
    parser.add_argument("--rounds", type=int, default=2, help="builds per variant (default: 2)")
    parser.add_argument("--files", type=int, default=0, help="files whose compiles are timed (default: 0)")
    add_build_options(parser, clang="bundled", results=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    rows: dict[str, Any] = results.setdefault("builds", {})
    chosen = {name: VARIANTS[name] for name in options.variants.split(",")}
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    prepare_plugins(work, chosen, options)
    for project in PROJECTS:
        if project.name not in options.only.split(","):
            continue
        bench = Bench(project, work, options.clang, options.jobs)
        seconds: dict[str, list[float]] = {name: [] for name in chosen}
        bench.compiles.unlink(missing_ok=True)
        for _ in range(options.rounds):
            for name, variant in chosen.items():
                seconds[name].append(bench.make(variant))
        files = file_seconds(bench, chosen, options.files) if options.files else {}
        row = {"program": project.name, "clang": options.clang, "seconds": seconds, "files": files}
        rows[f"{project.name} {options.clang}"] = row
        write_json(options.output, results)
    show(rows)


if __name__ == "__main__":
    main()
