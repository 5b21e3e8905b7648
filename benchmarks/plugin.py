"""A policy in the plugin of a distribution's clang, against the same policy in the environment, and plain clang.

For each module: whether the executable sections have the same bytes, and the processor time of the compile. Prints a
table, and writes JSON with --output.

    python benchmarks/plugin.py --plugin libmlgo_inline.so --clang clang-22 --policy mlp:FILE --corpus brotli
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo_gym.corpus import open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain


def processor_seconds(command: Sequence[str], repeats: int) -> float:
    """Return the least user and system time of several runs."""
    times = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    """Compare every module of the corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--corpus", action="append", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    toolchain = find_toolchain(options.clang)
    rows: list[dict[str, Any]] = []
    for name in options.corpus:
        modules = list(open_corpus(name, toolchain=toolchain))[: options.limit]
        result = evaluate("mlgo/Inline-v0", policies=[options.policy], corpus=name, env_kwargs={"clang": options.clang})
        expected = {episode.module: episode for episode in result.episodes}
        with tempfile.TemporaryDirectory() as folder:
            for module in modules:
                command = [*plan(module, toolchain).command, "-o"]
                plugin, plain = f"{folder}/plugin.o", f"{folder}/plain.o"
                with_plugin = processor_seconds(
                    [*command, plugin, f"-fpass-plugin={options.plugin.resolve()}"], options.repeats
                )
                alone = processor_seconds([*command, plain], options.repeats)
                text = object_sizes(Path(plugin).read_bytes()).text
                episode = expected[module.name]
                rows.append(
                    {
                        "module": f"{name}/{module.name}",
                        "decisions": episode.decisions,
                        "plugin": text,
                        "environment": int(episode.measures["text_size"][0]),
                        "plain": object_sizes(Path(plain).read_bytes()).text,
                        "seconds": [with_plugin, alone],
                    }
                )
    different = [row for row in rows if row["plugin"] != row["environment"]]
    decided = [row for row in rows if row["decisions"]]
    seconds = [sum(row["seconds"][part] for row in rows) for part in (0, 1)]
    ratios = [row["seconds"][0] / row["seconds"][1] for row in decided]
    print(f"{'modules':>8} {'decided':>8} {'equal':>8} {'changed':>8} {'overhead of all':>16} {'median':>8}")
    print(
        f"{len(rows):8} {len(decided):8} {len(rows) - len(different):8} "
        f"{sum(row['plugin'] != row['plain'] for row in rows):8} {seconds[0] / seconds[1] - 1:+16.1%} "
        f"{statistics.median(ratios) - 1:+8.1%}"
    )
    for row in different:
        print(f"differs: {row['module']}: plugin {row['plugin']}, environment {row['environment']}")
    if options.output is not None:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
