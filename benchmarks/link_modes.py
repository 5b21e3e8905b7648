"""Linked size of builds without unused functions, with folded functions and with LTO, with a policy in each place.

    python -m benchmarks.linked_builds --sources sources --work builds --clang clang-22 --only muparser uchardet pcre2
    python -m benchmarks.link_modes --work builds --clang clang-22 --output docs/results/link_modes.json

Needs an installed clang with lld and llvm-config, which loads the plugin. Prints the sums over all files of a build.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.deploy.link_plugins import build_link_plugins
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.evaluation.link_modes import COMPILE, LINK_MODES, RECORDED
from mlgo_gym.evaluation.linking import LinkedSize


def sums(rows: Iterable[LinkedSize]) -> list[dict[str, Any]]:
    """Return objects and linked bytes of each mode, policy and place, and their changes against plain clang's link.

    Raises:
        MlgoError: A link failed.
    """
    objects, linked = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for row in rows:
        if row.error is not None:
            raise MlgoError(f"{row.output}, {row.mode}: {row.error}")
        key = row.mode, row.policy, row.place
        objects[key] += row.objects
        linked[key] += row.linked
    return [
        {
            **dict(zip(("mode", "policy", "place"), key, strict=True)),
            "objects": objects[key],
            "linked": size,
            "objects-change": objects[key] / objects[key[0], PLAIN, COMPILE] - 1,
            "change": size / linked[key[0], PLAIN, COMPILE] - 1,
        }
        for key, size in linked.items()
    ]


def main() -> None:
    """Link each build in all modes, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the recorded builds")
    parser.add_argument("--clang", default="clang-22", help="clang that recorded them")
    parser.add_argument("--level", default="Oz", help="level of the builds")
    parser.add_argument("--policy", default="inline-oz", help="policy in each place")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    modes = [name for name in LINK_MODES if name != RECORDED.name]
    results: dict[str, Any] = {}
    table = Table({"build": "<12", "mode": "<8", "policy": "<12", "place": "<8", "linked": ">10,", "change": ">8.2%"})
    with tempfile.TemporaryDirectory() as folder:
        for build in sorted(path for path in (options.work / options.level).iterdir() if path.is_dir()):
            arguments = {"clang": options.clang, "compile_options": {"trust_flags": True}}
            with Evaluation(
                "mlgo/Inline-v0", policies=[options.policy], corpus=str(build), env_kwargs=arguments
            ) as evaluation:
                toolchain = evaluation.evaluated.env.toolchain
                plugins, missing = build_link_plugins([options.policy], toolchain, Path(folder))
                if missing:
                    raise MlgoError(missing)
                results[build.name] = sums(evaluation.link(trust_flags=True, modes=modes, plugins=plugins))
            for row in results[build.name]:
                table.row(build.name, row["mode"], row["policy"], row["place"], row["linked"], row["change"])
            write_json(options.output, results)


if __name__ == "__main__":
    main()
