"""A policy in the plugin of a distribution's clang, against the same policy in the environment, and plain clang.

For every module of the corpora: whether all executable sections have the same bytes, and what the plugin adds to the
processor time of the compile, by runs with and without it in turn (and with the plugin of another policy, by --beside).
Goes on where it was ended, if --output is the same.

Of a policy that sees calls the environment foretells these, and not always rightly. So a second plugin says what it is
shown at each decision: until the two decide differently, it must be what the environment saw wherever that foretold the
callee rightly, and where they do, the environment must have foretold another.

    python -m benchmarks.plugin --llvm-config llvm-config-22 --clang clang-22 --policy inline-oz-calls \
        --beside inline-oz-plain --corpus zstd@Oz --corpus sentencepiece@Oz:test --output docs/results/plugin.json
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

from benchmarks.plugin_trace import Agreement, agreement, in_traced_environment, in_traced_plugin, traced
from mlgo_gym.corpus.dataset import fetch_dataset
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode, decision_code
from mlgo_gym.deploy.exported_policy import network_path
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.llvm.elf import read_elf
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.call_features import CALL_FEATURES, are_of_calls
from mlgo_gym.policies.loading import policy_identity, with_calls
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import write_atomically

Code = Counter[bytes]
Row = dict[str, Any]


def executable_sections(data: bytes) -> Code:
    """Return the contents of the executable sections of an object, each as often as it is there."""
    elf = read_elf(data)
    return Counter(bytes(elf.contents(int(section))) for section in np.flatnonzero(elf.executable))


def in_environment(env: CompilerEnv, policy: Policy, module: Module) -> tuple[Code, int]:
    """Return the code that a policy makes of a module over the interactive channel, and its decisions."""
    compilation = env.compilation(module)
    decisions = 0
    with Session(
        compilation.command, env.task.advisors, confined=compilation.confined, limits=compilation.limits
    ) as session:
        while (decision := session.wait(120)) is not None:
            advice = env.task.encode(decision, policy.act(env.task.observe(decision), {}))
            assert advice is not None
            session.advise(advice)
            decisions += 1
        return executable_sections(session.finish(120).object_bytes), decisions


def processor_seconds(command: Sequence[str]) -> float:
    """Return the user and system time of a compile.

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
    """Return what each plugin makes of a module, and at last clang alone, and the seconds of each, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"{number}.o") for number in range(len(plugins) + 1)]
        commands = [[*command, "-o", str(output)] for output in outputs]
        for words, plugin in zip(commands, plugins, strict=False):
            words.append(f"-fpass-plugin={plugin}")
        seconds: list[list[float]] = [[] for _ in outputs]
        for turn in range(repeats):
            # Who goes first takes turns, too.
            for which in range(len(outputs)) if turn % 2 else reversed(range(len(outputs))):
                seconds[which].append(round(processor_seconds(commands[which]), 6))
        return [executable_sections(output.read_bytes()) for output in outputs], seconds


@dataclass(frozen=True, slots=True)
class Plugins:
    """What is measured: the policy's plugin, one that says what it sees if that is calls, and another policy's."""

    own: Path
    tracing: Path | None
    beside: Path | None

    @property
    def timed(self) -> list[Path]:
        """Those whose time is measured."""
        return [self.own, *([self.beside] if self.beside else [])]


def in_both(env: CompilerEnv, policy: Policy, module: Module, tracing: Path) -> tuple[Code, int, Row]:
    """Return what `in_environment()` does of a policy that sees calls, and how far the plugin sees the same."""
    expected, decisions = in_traced_environment(env, policy, module)
    with tempfile.TemporaryDirectory() as folder:
        found = in_traced_plugin(env.compilation(module).command, tracing, Path(folder, "traced.o"))
    same = agreement(found, expected, decisions)
    repeated = int(np.count_nonzero(found.seen[:, CALL_FEATURES.index("component_visits")]))
    return executable_sections(expected.object_bytes), len(decisions), {**_told(same), "visited_again": repeated}


def _told(same: Agreement) -> Row:
    told = {name: getattr(same, name) for name in ("compared", "foretold", "explained")}
    told["seen_otherwise"] = len(same.seen_otherwise)
    if same.first is not None:
        told["first"] = {"decision": same.first, "foretold": same.first_foretold, "callee": same.first_callee}
    return told


def measure(env: CompilerEnv, policy: Policy, module: Module, plugins: Plugins, repeats: int) -> Row:
    """Return the row of a module."""
    calls: Row = {}
    if plugins.tracing is None:
        expected, decisions = in_environment(env, policy, module)
    else:
        expected, decisions, told = in_both(env, policy, module, plugins.tracing)
        calls = {"calls": told}
    (found, *others, plain), seconds = in_compiler(env.compilation(module).command, plugins.timed, repeats)

    def size(code: Code) -> int:
        return sum(len(section) * count for section, count in code.items())

    beside = {"beside": size(others[0]), "beside_seconds": seconds[1]} if others else {}
    return {
        "module": module.name,
        "decisions": decisions,
        "environment": size(expected),
        "plugin": size(found),
        "plain": size(plain),
        "equal": found == expected,
        "equal_to_plain": found == plain,
        "seconds": [seconds[0], seconds[-1]],
        **beside,
        **calls,
    }


def summary(rows: Sequence[Row]) -> Row:
    """Return what some modules show together: the overhead by the least time of each, and by the median one."""
    least = np.array([[min(part) for part in row["seconds"]] for row in rows])
    ratios = least[:, 0] / least[:, 1]
    more: Row = {}
    if all("beside" in row for row in rows):
        beside = np.array([min(row["beside_seconds"]) for row in rows])
        more["beside"] = {
            "text": sum(row["beside"] for row in rows),
            "seconds": round(float(beside.sum()), 3),
            "overhead": round(float(beside.sum() / least[:, 1].sum() - 1), 5),
        }
    if told := [row["calls"] for row in rows if "calls" in row]:
        names = ("compared", "foretold", "seen_otherwise", "explained", "visited_again")
        more["calls"] = {name: sum(each[name] for each in told) for name in names}
        more["calls"]["decided_differently"] = sum("first" in each for each in told)
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
    """Return a dataset or a part of it: as the bundled clang recorded it if that is of the same version."""
    name, _, rest = corpus.partition("@")
    if name == "builtin":
        return corpus
    level, colon, part = rest.partition(":")
    toolchain, bundled = find_toolchain(clang), find_toolchain("bundled")
    recorder = bundled if toolchain.version_text == bundled.version_text else toolchain
    return f"{fetch_dataset(name, optimize=level or 'Oz', toolchain=recorder)}{colon}{part}"


def run(options: argparse.Namespace, corpus: str, plugins: Plugins, results: dict[str, Any]) -> None:
    """Measure every module of a corpus that is not measured yet."""
    identity = policy_identity(options.policy)
    key = f"{options.clang} {options.policy} {corpus}"
    arguments = {"clang": options.clang, "corpus": recorded(corpus, options.clang)}
    env = make_environment("mlgo/Inline-v0", with_calls(arguments, [options.policy]))
    known = results.setdefault(key, {})
    depends = {"policy": identity, "compiler": env.toolchain.version_text, "repeats": options.repeats}
    if options.beside is not None:
        depends["beside"] = policy_identity(options.beside)
    if {name: known.get(name) for name in depends} != depends:
        known.clear()
        known.update(depends, rows=[])
    policy = load_policy(options.policy, env)
    measured = {row["module"] for row in known["rows"]}
    for module in list(env.corpus)[: options.limit]:
        if module.name in measured:
            continue
        row = measure(env, policy, module, plugins, options.repeats)
        if not row["equal"] or not row.get("calls", {"explained": True})["explained"]:
            print(
                f"differs: {module.name}: {row['plugin']} bytes, in the environment {row['environment']}: "
                f"{row.get('calls', '')}",
                flush=True,
            )
        known["rows"].append(row)
        known["summary"] = summary(known["rows"])
        write_atomically(options.output, (json.dumps(results, indent=1) + "\n").encode())
    env.close()
    show(key, known["summary"])


def show(key: str, found: Row) -> None:
    """Print the line of a corpus."""
    print(
        f"{key:45} {found['modules']:4} modules, {found['decided']:4} with {found['decisions']:6} decisions, "
        f"{found['equal']:4} equal, {found['changed']:4} changed; overhead {found['overhead']:+.2%} of all, median "
        f"{found['median_overhead']:+.2%}, {found['median_milliseconds']:+.2f} ms; "
        f"text {found['text'][0] / max(1, found['text'][1]) - 1:+.2%}, in the mean {found['geometric_mean']:+.2%}; "
        f"{found.get('calls', '')} {found.get('beside', '')}",
        flush=True,
    )


def built(code: DecisionCode, options: argparse.Namespace, path: Path) -> Path:
    """Return the plugin of a policy."""
    compiler = options.clang.replace("clang", "clang++")
    build_plugin(code, installed_llvm(options.llvm_config), path, compiler=compiler)
    return path


def main() -> None:
    """Compare every module of the corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", required=True)
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--llvm-config", help="build the plugin for this LLVM")
    made.add_argument("--plugin", type=Path, help="a plugin of this policy that was built before")
    parser.add_argument("--policy", required=True)
    parser.add_argument("--beside", help="another policy, whose plugin is timed with this one's")
    parser.add_argument("--corpus", action="append", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    results = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        code = decision_code(options.policy, network_path(options.policy, calls=True))
        sees_calls = are_of_calls(code.features)
        if options.plugin is not None and (sees_calls or options.beside is not None):
            parser.error("--plugin is for a policy that sees no calls, and for no other beside it")
        beside = options.beside and decision_code(options.beside, network_path(options.beside, calls=True))
        plugins = Plugins(
            options.plugin.resolve() if options.plugin else built(code, options, folder / "own.so"),
            built(traced(code), options, folder / "tracing.so") if sees_calls else None,
            built(beside, options, folder / "beside.so") if beside else None,
        )
        for corpus in options.corpus:
            run(options, corpus, plugins, results)


if __name__ == "__main__":
    main()
