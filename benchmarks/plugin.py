"""A policy in the plugin of a distribution's clang, against the same policy in the environment, and plain clang.

For every module of the corpora: whether all executable sections have the same bytes, and what the plugin adds to the
processor time of the compile, by runs with and without it in turn. Goes on where it was ended, if --output is the same.

    python benchmarks/plugin.py --llvm-config llvm-config-22 --clang clang-22 --policy inline-oz-plain \
        --corpus zstd@Oz --corpus sentencepiece@Oz --output docs/results/plugin.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.corpus.dataset import fetch_dataset
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import decision_code
from mlgo_gym.deploy.exported_policy import network_path
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.llvm.elf import read_elf
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import policy_identity
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


def in_compiler(command: Sequence[str], plugin: Path, repeats: int) -> tuple[Code, Code, list[list[float]]]:
    """Return what the plugin makes of a module, what clang alone does, and the seconds of both, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, "plugin.o"), Path(folder, "plain.o")]
        commands = [
            [*command, "-o", str(outputs[0]), f"-fpass-plugin={plugin}"],
            [*command, "-o", str(outputs[1])],
        ]
        seconds: list[list[float]] = [[], []]
        for turn in range(repeats):
            # Who goes first takes turns, too.
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds[which].append(round(processor_seconds(commands[which]), 6))
        code = [executable_sections(output.read_bytes()) for output in outputs]
    return code[0], code[1], seconds


def measure(env: CompilerEnv, policy: Policy, module: Module, plugin: Path, repeats: int) -> Row:
    """Return the row of a module."""
    expected, decisions = in_environment(env, policy, module)
    found, plain, seconds = in_compiler(env.compilation(module).command, plugin, repeats)

    def size(code: Code) -> int:
        return sum(len(section) * count for section, count in code.items())

    return {
        "module": module.name,
        "decisions": decisions,
        "environment": size(expected),
        "plugin": size(found),
        "plain": size(plain),
        "equal": found == expected,
        "equal_to_plain": found == plain,
        "seconds": seconds,
    }


def summary(rows: Sequence[Row]) -> Row:
    """Return what some modules show together: the overhead by the least time of each, and by the median one."""
    least = np.array([[min(part) for part in row["seconds"]] for row in rows])
    ratios = least[:, 0] / least[:, 1]
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
    }


def recorded(corpus: str, clang: str) -> Path:
    """Return the folder of a dataset for a clang: as the bundled one recorded it where that is of the same version."""
    name, _, level = corpus.partition("@")
    toolchain, bundled = find_toolchain(clang), find_toolchain("bundled")
    recorder = bundled if toolchain.version_text == bundled.version_text else toolchain
    return fetch_dataset(name, optimize=level or "Oz", toolchain=recorder)


def run(options: argparse.Namespace, corpus: str, plugin: Path, results: dict[str, Any]) -> None:
    """Measure every module of a corpus that is not measured yet."""
    identity = policy_identity(options.policy)
    key = f"{options.clang} {options.policy} {corpus}"
    folder = recorded(corpus, options.clang)
    env = make_environment("mlgo/Inline-v0", {"clang": options.clang, "corpus": str(folder)})
    known = results.setdefault(key, {})
    depends = {"policy": identity, "compiler": env.toolchain.version_text, "repeats": options.repeats}
    if {name: known.get(name) for name in depends} != depends:
        known.clear()
        known.update(depends, rows=[])
    policy = load_policy(options.policy, env)
    measured = {row["module"] for row in known["rows"]}
    for module in list(env.corpus)[: options.limit]:
        if module.name in measured:
            continue
        row = measure(env, policy, module, plugin, options.repeats)
        if not row["equal"]:
            print(f"differs: {module.name}: {row['plugin']} bytes, in the environment {row['environment']}", flush=True)
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
        f"{found['median_overhead']:+.2%}, {found['median_milliseconds']:+.2f} ms",
        flush=True,
    )


def main() -> None:
    """Compare every module of the corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", required=True)
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--llvm-config", help="build the plugin for this LLVM")
    made.add_argument("--plugin", type=Path, help="a plugin of this policy that was built before")
    parser.add_argument("--policy", required=True)
    parser.add_argument("--corpus", action="append", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    results = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        plugin = options.plugin or Path(folder, "libmlgo_inline.so")
        if options.plugin is None:
            code = decision_code(options.policy, network_path(options.policy))
            compiler = options.clang.replace("clang", "clang++")
            build_plugin(code, installed_llvm(options.llvm_config), plugin, compiler=compiler)
        for corpus in options.corpus:
            run(options, corpus, plugin.resolve(), results)


if __name__ == "__main__":
    main()
