"""Code and call graphs at inlining decisions: checks against clang, and a graph network.

    python -m benchmarks.graphs --corpus builtin --corpus zstd --modules 200 [--output runs/graphs.jsonl] [--collect]

Each module is compiled with clang's own choices. The checks of a module:

- Names: caller and callee of each decision against those that a pass plugin sees in clang 22 of the same version.
- Text: the same clang parses that of each decision, and it contains the call.
- State: clang prints the whole module before some visits of the inliner. Code of caller and callee, and all edges of
  the call graph, must be equal there.

The output has a line of JSON per module, so the same command resumes an interrupted run. `--collect` writes
docs/results/graphs.json. `--network FOLDER` fits the graph network of examples/graph_network.py there instead, and
writes its sizes of test modules beside those of rules to the same file. `benchmarks.speed` measures what graphs cost.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import held_out
from benchmarks.measuring import RESULTS, ROOT, CheckedModules, command_line, own_decisions, read_json, write_json
from mlgo_gym.compiler.decision_code import DecisionCode, DecisionIR
from mlgo_gym.compiler.printed_module import MODULE_FLAGS, PARSE_FLAGS, PrintedModule
from mlgo_gym.deploy.c_code import DecisionCode as PolicyCode
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.make_env import make_environment

DATA = RESULTS / "graphs.json"

NETWORK = ROOT / "examples" / "graph_network.py"
FROZEN_LABELS, LAST_CALL = "mlgo/inline-graphs-v0", "last-call"

MAX_BYTES = 300_000
"""Largest bitcode of a module: clang prints the whole module several times."""

TESTED = (
    *("apsw", "blosc", "lz4", "numpy", "xxhash", "zopfli"),
    *("zstd", "kiwisolver", "lightgbm", "pysimdjson", "snappy"),
)
"""Corpora whose test part judges the network."""

SAMPLE = (5, 60_000)
"""Number of modules of each of their projects, and their maximum size in bytes of bitcode."""

_SAMPLES = 3
"""Number of visits to check in a module."""

_MAJOR = 22
"""LLVM of the plugin, whose clang is `clang-22`."""

_PRINTING = """#include "llvm/Support/raw_ostream.h"
static int mlgo_yes(const llvm::CallBase &Call, const float *features) {
  llvm::errs() << "decision " << Call.getCaller()->getName() << '\\t' << Call.getCalledFunction()->getName() << '\\n';
  return features[0] != 0;
}
"""
"""The code of a policy for a plugin: clang's own choice, and a line with caller and callee."""

_SEEN = re.compile(r"^decision ([^\t\n]*)\t([^\n]*)$", re.MULTILINE)
_DUMP = re.compile(r"^(?:; )?\*\*\* IR Dump (Before|After) InlinerPass on \(([^\n]*)\) \*\*\*\n", re.MULTILINE)
_NUMBERS = re.compile(r" #\d+|, ![\w.]+ !\d+| ![\w.]+ !\d+|^; Function Attrs[^\n]*\n", re.MULTILINE)


def check_module(env: CompilerEnv, module: str, plugin: Path, chance: random.Random) -> dict[str, Any]:
    """Return the results of all checks of a module."""
    found: list[tuple[DecisionIR, bool]] = []
    visits: dict[tuple[str, int], DecisionCode] = {}
    for _ in own_decisions(env, module):
        assert env._episode is not None
        decision = env._episode.pending()
        assert decision.code is not None
        ir = decision.code.ir()
        found.append((ir, len(decision.site.functions) > 1))
        if decision.site.index == 0 and ir.callee and len(visits) < 50:
            visits[decision.site.context, decision.site.visit] = decision.code.copy()
    seen = names_in_plugin(env, module, plugin)
    if len(seen) != len(found):
        raise MlgoError(f"expected {len(found)} decisions in the plugin, got {len(seen)}")
    counts = Counter(
        ("unknown" if not ir.callee else "right" if (ir.caller, ir.callee) == names else "wrong")
        + (" in a cycle" if in_cycle else "")
        for (ir, in_cycle), names in zip(found, seen, strict=True)
    )
    known = [ir for ir, _ in found if ir.callee]
    texts = {ir.text for ir in known}
    chosen = chance.sample(sorted(visits), min(_SAMPLES, len(visits)))
    return {
        "names": counts,
        "texts": len(texts),
        "parsed": sum(parses(env, module, text) for text in sorted(texts)),
        "known": len(known),
        "with call": sum(bool(ir.call) and ir.call in ir.text and ir.callee in ir.call for ir in known),
        **compare(env, module, {visit: visits[visit] for visit in chosen}),
    }


def names_in_plugin(env: CompilerEnv, module: str, plugin: Path) -> list[tuple[str, ...]]:
    """Return caller and callee of each decision, as a plugin prints them in a compile with clang's own choices."""
    compilation = env.compilation(env.corpus.module(module))
    flags = [*compilation.flags, f"-fpass-plugin={plugin}", *compilation.inputs]
    command = [f"clang-{_MAJOR}", *flags, "-o", "/dev/null"]
    printed = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
    return _SEEN.findall(printed.decode(errors="surrogateescape"))


def parses(env: CompilerEnv, module: str, text: str) -> bool:
    """Return whether clang parses and verifies a text, with the flags of the module."""
    compilation = env.compilation(env.corpus.module(module))
    flags = [{"-emit-obj": "-emit-llvm-bc"}.get(flag, flag) for flag in compilation.flags]
    command = [*env.toolchain.command, *flags, *PARSE_FLAGS, "-disable-llvm-passes", "-x", "ir", "-", "-o", "/dev/null"]
    code = text.encode(errors="surrogateescape")
    return subprocess.run(command, input=code, capture_output=True, check=False).returncode == 0


def compare(env: CompilerEnv, module: str, visits: Mapping[tuple[str, int], DecisionCode]) -> dict[str, int]:
    """Return how many codes and edges equal those of the module that clang prints before the same visits."""
    counts = dict.fromkeys(("codes", "equal codes", "visits", "edges compared", "different edges"), 0)
    if not visits:
        return counts
    functions = ",".join(context.split(", ")[0] for context, _ in visits)
    compilation = env.compilation(env.corpus.module(module))
    flags = [*compilation.flags, *MODULE_FLAGS, "-mllvm", f"-filter-print-funcs={functions}"]
    with tempfile.TemporaryFile() as file:
        command = [*env.toolchain.command, *flags, *compilation.inputs, "-o", "/dev/null"]
        subprocess.run(command, stderr=file, check=True)
        file.seek(0)
        pieces = _DUMP.split(file.read().decode(errors="surrogateescape"))
    seen: Counter[str] = Counter()
    for when, printed, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        context = ", ".join(sorted(printed.split(", ")))
        if when == "After":
            continue
        visit = context, seen[context]
        seen[context] += 1
        if (code := visits.get(visit)) is None:
            continue
        ours, theirs, ir = code.module.functions, PrintedModule(text).functions, code.ir()
        counts["visits"] += 1
        for name in (ir.caller, ir.callee):
            counts["codes"] += 1
            counts["equal codes"] += name in theirs and _NUMBERS.sub("", ours[name].code) == _NUMBERS.sub(
                "", theirs[name].code
            )
        edges = [
            {(name, callee): calls for name in functions_ for callee, calls in functions_[name].calls.items()}
            for functions_ in (ours, theirs)
        ]
        counts["edges compared"] += len(edges[0].keys() | edges[1].keys())
        counts["different edges"] += len(edges[0].items() ^ edges[1].items())
    return counts


def check_rows(modules: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of the checks: how many of them agree with clang."""
    rows = [["check", "compared", "equal", "different", "unknown"]]
    for title, suffix in (("names in functions alone", ""), ("names in components of several", " in a cycle")):
        right, wrong, unknown = (
            sum(row["names"].get(f"{word}{suffix}", 0) for row in modules) for word in ("right", "wrong", "unknown")
        )
        rows.append([title, *(f"{count:,}" for count in (right + wrong + unknown, right, wrong, unknown))])
    keys = ("texts", "parsed", "known", "with call", "codes", "equal codes", "edges compared", "different edges")
    texts, parsed, known, calls, codes, equal_codes, edges, different = (
        sum(row[key] for row in modules) for key in keys
    )
    for title, compared, equal in (
        ("different texts that clang parses", texts, parsed),
        ("calls in the texts", known, calls),
        ("code of callers and callees", codes, equal_codes),
        ("edges of the module", edges, edges - different),
    ):
        rows.append([title, f"{compared:,}", f"{equal:,}", f"{compared - equal:,}", ""])
    return rows


def collect(output: Path) -> None:
    """Write the table of all modules, and keep what other programs have added to the file."""
    modules = [line for line in map(json.loads, output.read_text().splitlines()) if "names" in line]
    write_json(DATA, read_json(DATA, {}) | {"checks": check_rows(modules)})


def learn(work: Path, seeds: int) -> None:
    """Fit the graph network of the example, and write its sizes of test modules and those of rules."""
    labels = work / "labels"
    program = str(Path(sys.executable).with_name("mlgo-gym"))
    subprocess.run([program, "label", FROZEN_LABELS, "--output", str(labels)], check=True)
    policies = {"default": ("default", Path()), LAST_CALL: (LAST_CALL, Path())}
    for seed in range(seeds):
        file = work / f"{seed}.pt"
        if not file.exists():
            subprocess.run([sys.executable, str(NETWORK), str(labels), str(file), str(seed)], check=True)
        policies[f"graph network, seed {seed}"] = (f"{NETWORK}:GraphPolicy", file)
    found: dict[str, Any] = {}
    for name, (policy, file) in policies.items():
        os.environ["GRAPH_NETWORK"] = str(file)
        output = work / re.sub(r"\W+", "-", name)
        found[name] = held_out.measure(TESTED, "Oz", policy, 1, output, ":test", SAMPLE, observation="graph")
    write_json(DATA, read_json(DATA, {}) | {"learning": found})


def main() -> None:
    """Check the modules that the output lacks, or fit the network."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", action="append", default=[], help="corpus of the modules; repeat for several")
    parser.add_argument("--modules", type=int, default=200, help="number of modules, drawn at random")
    parser.add_argument("--output", type=Path, default=Path("runs/graphs.jsonl"), help="file of results")
    parser.add_argument("--collect", action="store_true", help="write docs/results/graphs.json")
    parser.add_argument("--network", type=Path, metavar="FOLDER", help="fit the graph network in a folder instead")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the network (default: 3)")
    options = parser.parse_args()
    if options.network is not None:
        learn(options.network, options.seeds)
        return
    envs = {corpus: make_environment("mlgo/Inline-v0", {"corpus": corpus, "ir": True}) for corpus in options.corpus}
    small = [
        (corpus, module.name)
        for corpus in options.corpus
        for module in envs[corpus].corpus
        if module.bitcode.stat().st_size <= MAX_BYTES
    ]
    modules = random.Random(0).sample(small, min(options.modules, len(small)))
    with closing(CheckedModules(options.output)) as checked, tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder, "printing.so")
        policy = PolicyCode("own choice", (INLINING_DEFAULT,), _PRINTING, "mlgo_yes(*Call, Values)")
        build_plugin(policy, installed_llvm(f"llvm-config-{_MAJOR}"), plugin)
        for corpus, name in modules:
            find = partial(check_module, envs[corpus], name, plugin, random.Random(name))
            checked.check("mlgo/Inline-v0", corpus, name, envs[corpus].toolchain.version_text, find)
    if options.collect:
        collect(options.output)


if __name__ == "__main__":
    main()
