"""Runs the Python blocks and the commands of README.md and of docs; prints each with its time.

    python .ci/pages.py                # all pages, without a network
    python .ci/pages.py README.md      # one page
    python .ci/pages.py --network      # with the commands that download sources

Commands are indented blocks and blocks of `sh`, `bash` or `console`. Each page runs in its own temporary folder, with
inputs for its commands. The Python blocks of a page are one program. The steps use the Python that runs this program
and the commands installed with it; so it tests an installation. `SMALLER` shortens long commands. Each command that is
skipped is listed with a reason: see `ELSEWHERE`, `SKIPPED` and `NEEDED`. The exit status is 1 if a step fails.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mlgo_gym.policies.network import Network

ROOT = Path(__file__).parents[1]

ELSEWHERE = {
    "docs/how_to/many_machines.md": "needs a cluster; tests/scheduling runs on one with the RL libraries",
    "docs/how_to/rust.md": "needs cargo and sources of crates; tests/mlgo_clang/test_rustc.py builds with them",
    "docs/tutorials/first_episode.md": "tests/test_pages.py runs it",
    "docs/tutorials/smaller_program.md": "needs the sources of yaml-cpp; benchmarks/linked.py builds it alike",
    "docs/tutorials/train_and_compare.md": "trains for minutes; tests/test_examples.py runs its programs",
}
"""Reasons to skip a page, by its path."""

SKIPPED = {
    "installs packages": ("python -m pip install", "sudo apt-get install"),
    "`.ci/run` runs it": ("make demo", "make test"),
    "needs an RL library; tests/test_examples.py runs it": ("python examples/sb3_ppo.py",),
    "needs the reader's own environment; tests/envs/test_new_decision_point.py makes one": (
        "mlgo-gym doctor && mlgo-gym env mlgo/Toy-v0",
        "mlgo-gym evaluate mlgo/Toy-v0",
        "make check",
    ),
    "measures the machine for minutes to hours": (
        "python -m benchmarks.exactness rule",
        "python -m benchmarks.reference",
        "python -m benchmarks.speed",
    ),
    "takes hours": (
        "make compatibility",
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus benchmark",
        "mlgo-gym train policy --level Oz",
    ),
    "takes minutes; tests/deploy/test_exports.py runs it": ("mlgo-gym export llvm-header",),
    "downloads sources and takes minutes; tests/programs runs programs": (
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus programs",
    ),
    "needs the policy that takes hours": (
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd --split test --policy default,mlp:",
    ),
    "needs the extra `training`; tests/cli/test_commands.py runs it": ("mlgo-gym train",),
    "needs the extra `training`, and takes minutes; tests/test_examples.py runs them on a small corpus": (
        "mlgo-gym label mlgo/",
        "python examples/graph_network.py",
        "GRAPH_NETWORK=",
        "mlgo-gym report runs/graph-results",
        "python -m benchmarks.graphs",
    ),
    "writes pages of the repository; tests/test_pages.py checks them": ("make numbers",),
    "needs the linker script of a board; tests/corpus/test_targets.py records cross builds": (
        'make CC="mlgo-clang --mlgo-policy=last-call --target=thumbv7em',
    ),
    "needs a file of the repository; tests/test_examples.py builds it": ("make -C examples/firmware",),
    "needs files of the repository and minutes, or a model": (
        "python examples/evolve_rules.py",
        "python -m benchmarks.evolution",
        "python examples/openevolve/run.py",
        "OPENAI_API_KEY=",
    ),
    "needs a toolchain for Arm": (
        "mlgo-clang --mlgo-policy=last-call --target=thumbv7em-none-eabihf",
        "arm-none-eabi-gcc",
    ),
    "needs a model of another project, and TensorFlow": (
        "tar xf inlining-Oz",
        'python -c "import sys, tensorflow',
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin --split test --policy default,tflite:model",
    ),
    "needs a system root of aarch64": ("mlgo-clang --target=aarch64", "clang-22 --target=aarch64"),
    "needs a build of LLVM": (
        "cmake … ",
        "cmake -G Ninja -S llvm",
        "clang -Oz -mllvm",
        "build/bin/clang",
    ),
}
"""Beginnings of the commands that are skipped, by reason."""

NEEDED = {
    r"\b(clang|clang\+\+|llvm-config|opt)-22\b|libmlgo_inline": ("clang-22", "llvm-config-22", "opt-22", "ld.lld-22"),
    r"\bcmake\b": ("cmake",),
    r"\bjq\b": ("jq",),
    r" --link($| )": ("ld",),
    r"\bwasm-opt\b": ("wasm-opt",),
    r"@thumbv7em .*--run$": ("qemu-arm",),
    r"\bexport tosa\b": ("import ai_edge_litert", "import tosa_converter_for_tflite"),
}
"""Programs and Python packages without which commands are skipped, by a pattern of the commands."""

DATASETS = re.compile(r"(?<=--corpus )[\w@,]*\b(benchmark|zstd|lz4|sentencepiece)\b[\w@,:]*|(?<=corpus=\")zstd(?=\")")
"""Corpora whose sources are downloaded. Without a network `builtin` replaces them."""

SMALLER = (
    (r"^(mlgo-gym evaluate .*?)(?= \||$)", r"\1 --limit 1"),
    (r"^mlgo-gym explain c/\w+", "mlgo-gym explain kernels/dct"),
    (r"^(mlgo-gym label .*)", r"\1 --limit 1"),
    (r"--compiles \d+", "--compiles 3"),
    (r"^(mlgo-gym search .*--corpus zstd .*)", r"\1 --module lib/common/pool.o"),
    (r"^(mlgo-gym search .*--corpus builtin .*)", r"\1 --module kernels/dct"),
)
"""Patterns and replacements that shorten commands."""

INPUTS = {
    "docs/how_to/build_systems.md": "mkdir build && mlgo-clang -Oz -c hello.c -o build/hello",
    "docs/how_to/evaluate.md": "mlgo-gym evaluate mlgo/Inline-v0 --split test --policy default --limit 1 "
    "--output runs/fast",
    "docs/results/benchmark.md": "mlgo-gym evaluate mlgo/Inline-v0 --policy default --limit 1 --output RESULTS",
    "docs/how_to/other_compilers.md": "! command -v clang-22 || clang-22 -Oz -emit-llvm -c source.c -o source.bc",
}
"""Commands that make the inputs of a page, by its path."""

MAKEFILE = """\
.PHONY: all clean
all:
\t$(CC) $(CFLAGS) -Oz -c hello.c -o hello.o
\tif command -v ld; then $(CC) hello.o -o hello; fi
clean:
\trm -f hello hello.o
"""
"""Always compiles: pages build several times, and a recording needs a compile."""

SOURCE = (
    "static int twice(int x) { return 2 * x; }\nint main(int x, char **names) { return twice(x) + twice(x + 1); }\n"
)


@dataclass(frozen=True, slots=True)
class Step:
    """The Python of a page, or one of its commands.

    Attributes:
        text: the code or the command.
        words: the command line that runs it; empty if it is skipped.
        reason: the reason why it is skipped; empty if it runs.
    """

    text: str
    words: tuple[str, ...]
    reason: str = ""


BLOCK = re.compile(
    r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)


def pages() -> list[str]:
    """Return the paths of the pages whose commands run, relative to the repository."""
    return ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]


def commands(block: str) -> list[str]:
    """Return the commands of a block, each on one line and without comments."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    found = (re.sub(r"(^|\s+)# .*", "", line).strip() for line in lines)
    return [command for command in found if command]


def steps(page: str, text: str, *, network: bool) -> list[Step]:
    """Return the steps of a page in its order; its Python runs at the place of its last block of Python."""
    found: list[Step] = []
    python = ""
    for block in BLOCK.finditer(text):
        if block["language"] == "python":
            python += block["code"]
            found = [step for step in found if step.words[:1] != (sys.executable,)]
            code = python if network else DATASETS.sub("builtin", python)
            names = dict.fromkeys(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
            missing = ", ".join(name for name in names if not _is_installed(f"import {name}"))
            words = () if missing else (sys.executable, "-W", "error", "-c", code)
            found.append(Step(python, words, missing and f"needs {missing}; tests/test_pages.py runs it"))
        elif block["indented"] or block["language"] in ("sh", "bash", "console"):
            found += [_step(command, network=network) for command in commands(block["indented"] or block["code"])]
    return [Step(step.text, (), ELSEWHERE[page]) for step in found] if page in ELSEWHERE else found


def _step(command: str, *, network: bool) -> Step:
    reasons = [reason for reason, starts in SKIPPED.items() if command.startswith(starts)]
    for pattern, programs in NEEDED.items():
        missing = [program for program in programs if not _is_installed(program)]
        if missing and re.search(pattern, command):
            reasons.append(f"needs {', '.join(name.removeprefix('import ') for name in missing)}")
    line = command if network else DATASETS.sub("builtin", command)
    for pattern, replacement in SMALLER:
        line = re.sub(pattern, replacement, line)
    return Step(command, (), reasons[0]) if reasons else Step(command, ("bash", "-c", line))


def _is_installed(name: str) -> bool:
    package = name.removeprefix("import ")
    return (shutil.which(name) if package == name else importlib.util.find_spec(package)) is not None


def prepare(page: str, folder: Path) -> str:
    """Write the files that the commands of a page name; return the command that makes its other inputs."""
    shutil.copy(ROOT / "examples" / "my_policy.py", folder)
    weights = (np.array([[-1], [1]], np.float32),), (np.zeros(1, np.float32),)
    Network(("cost_estimate", "inlining_default"), *weights).save(folder / "policy.safetensors")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(hello C CXX)\n")
    for name in ("hello.c", "source.c", "a.c"):
        (folder / name).write_text(SOURCE)
    (folder / "b.c").write_text("int b;\n")
    return INPUTS.get(page, "")


def run(page: str, *, network: bool) -> tuple[list[str], list[str]]:
    """Run a page; return its report by line, and the outcome or the reason of each step."""
    report, outcomes = [f"{page}:"], []
    variables = {**os.environ, "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    found = steps(page, (ROOT / page).read_text(encoding="utf-8"), network=network)
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-page-") as temporary:
        inputs = prepare(page, Path(temporary))
        if inputs:
            found.insert(0, Step(inputs, ("bash", "-c", inputs)))
        for step in found:
            title = f"{step.text.splitlines()[0]} …" if "\n" in step.text else step.text
            outcomes.append(step.reason or "ran")
            if not step.words:
                report.append(f"  skipped  {title}\n           ({step.reason})")
                continue
            start = time.perf_counter()
            done = subprocess.run(
                step.words,
                cwd=temporary,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            outcomes[-1] = "failed" if done.returncode else "ran"
            report.append(f"  {outcomes[-1]:8} {title}  ({time.perf_counter() - start:.1f} s)")
            if done.returncode:
                report.append(f"{' '.join(step.words)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return report if found else [], outcomes


def main() -> None:
    """Run the pages, and print each step and the number of steps by outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="Pages, relative to the repository. Default: all.")
    parser.add_argument("--network", action="store_true", help="also run steps that download sources")
    options = parser.parse_args()
    outcomes: collections.Counter[str] = collections.Counter()
    with ThreadPoolExecutor(2) as pool:
        for report, each in pool.map(partial(run, network=options.network), options.pages or pages()):
            print("\n".join(report), end="\n" if report else "", flush=True)
            outcomes.update(each)
    print("\nsteps:", flush=True)
    for outcome, number in outcomes.most_common():
        print(f"{number:5} {outcome}", flush=True)
    sys.exit(outcomes["failed"] > 0)


if __name__ == "__main__":
    main()
