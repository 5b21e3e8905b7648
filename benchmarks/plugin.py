"""Code and compile time of a policy's pass plugin, against the same policy in the environment and plain clang.

    python -m benchmarks.plugin --llvm-config llvm-config-22 --clang clang-22 --policy inline-oz \
        --other inline-oz-fast --corpus zstd@Oz --corpus sentencepiece@Oz:test --output docs/results/plugin.json

Prints a line per corpus. It counts the modules whose executable sections have the same bytes, and gives the CPU time
that the plugin adds to a compile, by compiles with and without it in turn. `--other` times the plugin of another policy
as well. The same command resumes an interrupted run.

For callee features the environment predicts the callee, and some predictions are wrong. So a second plugin prints the
features of each decision. Up to the first decision that differs, they must equal the environment's wherever the
prediction is right; at that decision, the prediction must be wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import command_line
from benchmarks.plugin_trace import Agreement, agreement, in_traced_environment, in_traced_plugin, traced
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.protocol.callee_features import CALLEE_FEATURES, uses_callee_features
from mlgo_gym.compiler.protocol.decision import Decision
from mlgo_gym.corpus.datasets.dataset import fetch_dataset
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode, decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import policy_identity, with_callee_features
from mlgo_gym.storage.cache import write_atomically

Code = Counter[bytes]
Row = dict[str, Any]


def executable_sections(data: bytes) -> Code:
    """Count the executable sections of an object by contents."""
    elf = read_elf(data)
    return Counter(bytes(elf.contents(int(section))) for section in np.flatnonzero(elf.executable))


def in_environment(env: CompilerEnv, policy: Policy, module: Module) -> tuple[Code, int]:
    """Compile over the interactive channel; return the code and the number of decisions."""
    compilation = env.compilation(module)
    decisions = 0

    def choose(decision: Decision) -> bytes:
        nonlocal decisions
        advice = env.task.encode(decision, policy.act(env.task.observe(decision), {}))
        assert advice is not None
        decisions += 1
        return advice

    with compilation.session(env.task.advisors) as session:
        return executable_sections(drive(session, choose, 120).object_bytes), decisions


def compile_seconds(command: Sequence[str]) -> float:
    """Return the CPU time of a compile.

    Raises:
        RuntimeError: it failed.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def in_compiler(command: Sequence[str], plugins: Sequence[Path], repeats: int) -> tuple[list[Code], list[list[float]]]:
    """Compile with each plugin and with none, in turn; return the code and the CPU seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"{number}.o") for number in range(len(plugins) + 1)]
        commands = [[*command, "-o", str(output)] for output in outputs]
        for words, plugin in zip(commands, plugins, strict=False):
            words.append(f"-fpass-plugin={plugin}")
        seconds: list[list[float]] = [[] for _ in outputs]
        for turn in range(repeats):
            # The order alternates, too.
            for which in range(len(outputs)) if turn % 2 else reversed(range(len(outputs))):
                seconds[which].append(round(compile_seconds(commands[which]), 6))
        return [executable_sections(output.read_bytes()) for output in outputs], seconds


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugin of the policy, one that prints the callee features if the policy uses them, and another policy's."""

    own: Path
    tracing: Path | None
    other: Path | None


def in_both(env: CompilerEnv, policy: Policy, module: Module, tracing: Path) -> tuple[Code, int, Row]:
    """Return the code and the number of decisions in the environment, and the agreement with the plugin."""
    expected, decisions = in_traced_environment(env, policy, module)
    with tempfile.TemporaryDirectory() as folder:
        found = in_traced_plugin(env.compilation(module).command, tracing, Path(folder, "traced.o"))
    repeated = int(np.count_nonzero(found.seen[:, list(CALLEE_FEATURES).index("component_visits")]))
    facts = _facts(agreement(found, expected, decisions)) | {"repeated_visits": repeated}
    return executable_sections(expected.object_bytes), len(decisions), facts


def _facts(found: Agreement) -> Row:
    facts: Row = {name: getattr(found, name) for name in ("compared", "predicted", "explained")}
    facts["features_differ"] = len(found.features_differ)
    if found.first is not None:
        facts["first"] = {"decision": found.first, "predicted": found.first_predicted, "callee": found.first_callee}
    return facts


def measure(env: CompilerEnv, policy: Policy, module: Module, plugins: Plugins, repeats: int) -> Row:
    """Return the results of a module."""
    calls: Row = {}
    if plugins.tracing is None:
        expected, decisions = in_environment(env, policy, module)
    else:
        expected, decisions, facts = in_both(env, policy, module, plugins.tracing)
        calls = {"calls": facts}
    timed = [plugins.own, *([plugins.other] if plugins.other else [])]
    (found, *others, plain), seconds = in_compiler(env.compilation(module).command, timed, repeats)

    def size(code: Code) -> int:
        return sum(len(section) * count for section, count in code.items())

    other = {"other": size(others[0]), "other_seconds": seconds[1]} if others else {}
    return {
        "module": module.name,
        "decisions": decisions,
        "environment": size(expected),
        "plugin": size(found),
        "plain": size(plain),
        "equal": found == expected,
        "equal_to_plain": found == plain,
        "seconds": [seconds[0], seconds[-1]],
        **other,
        **calls,
    }


def summary(rows: Sequence[Row]) -> Row:
    """Return the totals of some modules; overheads are those of each module's fastest compiles."""
    least = np.array([[min(part) for part in row["seconds"]] for row in rows])
    ratios = least[:, 0] / least[:, 1]
    more: Row = {}
    if all("other" in row for row in rows):
        other = np.array([min(row["other_seconds"]) for row in rows])
        more["other"] = {
            "text": sum(row["other"] for row in rows),
            "seconds": round(float(other.sum()), 3),
            "overhead": round(float(other.sum() / least[:, 1].sum() - 1), 5),
        }
    if facts := [row["calls"] for row in rows if "calls" in row]:
        names = ("compared", "predicted", "features_differ", "explained", "repeated_visits")
        more["calls"] = {name: sum(each[name] for each in facts) for name in names}
        more["calls"]["decided_differently"] = sum("first" in each for each in facts)
        more["text_in_environment"] = sum(row["environment"] for row in rows)
    changes = [np.log(row["plugin"] / row["plain"]) for row in rows if row["decisions"] and row["plain"]]
    return {
        "modules": len(rows),
        "decided": sum(row["decisions"] > 0 for row in rows),
        "decisions": sum(row["decisions"] for row in rows),
        "equal": sum(row["equal"] for row in rows),
        "changed": sum(not row["equal_to_plain"] for row in rows),
        "text": [sum(row[name] for row in rows) for name in ("plugin", "plain")],
        "seconds": least.sum(0).round(3).tolist(),
        "overhead": round(float(least[:, 0].sum() / least[:, 1].sum() - 1), 5),
        "median_overhead": round(float(np.median(ratios) - 1), 5),
        "median_milliseconds": round(float(np.median(least[:, 0] - least[:, 1])) * 1000, 2),
        "geometric_mean": round(float(np.expm1(np.mean(changes))) if changes else 0.0, 5),
        **more,
    }


def recorded(corpus: str, clang: str) -> str:
    """Return the folder of a dataset, recorded by the bundled clang if that has the same version."""
    name, _, rest = corpus.partition("@")
    if name == "builtin":
        return corpus
    level, colon, part = rest.partition(":")
    toolchain, bundled = find_toolchain(clang), find_toolchain("bundled")
    recorder = bundled if toolchain.version_text == bundled.version_text else toolchain
    return f"{fetch_dataset(name, optimize=level or 'Oz', toolchain=recorder)}{colon}{part}"


def run(options: argparse.Namespace, corpus: str, plugins: Plugins, results: dict[str, Any]) -> None:
    """Measure the modules of a corpus that the output lacks."""
    identity = policy_identity(options.policy)
    key = f"{options.clang} {options.policy} {corpus}"
    arguments = {"clang": options.clang, "corpus": recorded(corpus, options.clang)}
    env = make_environment("mlgo/Inline-v0", with_callee_features(arguments, [options.policy]))
    kept = results.setdefault(key, {})
    depends = {"policy": identity, "compiler": env.toolchain.version_text, "repeats": options.repeats}
    if options.other is not None:
        depends["other"] = policy_identity(options.other)
    if {name: kept.get(name) for name in depends} != depends:
        kept.clear()
        kept.update(depends, rows=[])
    policy = load_policy(options.policy, env)
    measured = {row["module"] for row in kept["rows"]}
    for module in list(env.corpus)[: options.limit]:
        if module.name in measured:
            continue
        row = measure(env, policy, module, plugins, options.repeats)
        if not row["equal"] or not row.get("calls", {"explained": True})["explained"]:
            sizes = f"{row['plugin']} bytes, in the environment {row['environment']}"
            print(f"differs: {module.name}: {sizes}: {row.get('calls', '')}", flush=True)
        kept["rows"].append(row)
        kept["summary"] = summary(kept["rows"])
        write_atomically(options.output, (json.dumps(results, indent=1) + "\n").encode())
    env.close()
    show(key, kept["summary"])


def show(key: str, found: Row) -> None:
    """Print the line of a corpus."""
    print(
        f"{key:45} {found['modules']:4} modules, {found['decided']:4} with {found['decisions']:6} decisions, "
        f"{found['equal']:4} equal, {found['changed']:4} changed; overhead {found['overhead']:+.2%} of all, median "
        f"{found['median_overhead']:+.2%}, {found['median_milliseconds']:+.2f} ms; "
        f"total {found['text'][0] / max(1, found['text'][1]) - 1:+.2%}, geometric mean {found['geometric_mean']:+.2%}; "
        f"{found.get('calls', '')} {found.get('other', '')}",
        flush=True,
    )


def build(code: DecisionCode, options: argparse.Namespace, path: Path) -> Path:
    """Build a plugin."""
    compiler = options.clang.replace("clang", "clang++")
    build_plugin(code, installed_llvm(options.llvm_config), path, compiler=compiler)
    return path


def main() -> None:
    """Build the plugins, and measure every module of the corpora."""
    parser = command_line(__doc__)
    parser.add_argument("--clang", required=True, help="a distribution's clang, for instance clang-22")
    parser.add_argument("--llvm-config", required=True, help="its llvm-config")
    parser.add_argument("--policy", required=True, help="a bundled policy or mlp:FILE")
    parser.add_argument("--other", help="another policy, whose plugin is timed as well")
    parser.add_argument("--corpus", action="append", required=True, help="a corpus; repeatable")
    parser.add_argument("--limit", type=int, help="number of modules per corpus (default: all)")
    parser.add_argument("--repeats", type=int, default=4, help="compiles per module and plugin (default: 4)")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to extend")
    options = parser.parse_args()
    results = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        code = decision_code(options.policy, callee_features=True)
        other = options.other and decision_code(options.other, callee_features=True)
        plugins = Plugins(
            build(code, options, folder / "own.so"),
            build(traced(code), options, folder / "tracing.so") if uses_callee_features(code.features) else None,
            build(other, options, folder / "other.so") if other else None,
        )
        for corpus in options.corpus:
            run(options, corpus, plugins, results)


if __name__ == "__main__":
    main()
