"""Equality of the objects that the same answers give in every way to answer; one line of JSON per module.

    python -m benchmarks.same_object --corpus builtin --corpus zstd --limit 20 --output runs/ways.jsonl
    python -m benchmarks.same_object --corpus builtin --clang clang-22 --plugin 22 --output runs/ways.jsonl
    python -m benchmarks.same_object --policy inline-oz --clang clang-22 --plugin 22 --output runs/policy.jsonl

One list of random answers per module is given in a single environment and in the other ways: a vector environment,
forks, forked resets, answers sent ahead, and episodes of one function. `--plugin` adds a pass plugin, `--ray` a worker
of a Ray cluster; sources of `builtin` are also compiled by `mlgo-clang`. The same command resumes an interrupted run.
`benchmarks/exactness.py` collects the output.

`--policy` compiles the sources of `builtin` with a policy instead: by `gym.make`, `evaluate`, `trace` and `mlgo-clang`,
and by a plugin of the policy.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.checked_modules import CheckedModules, checking_parser
from mlgo_gym.corpus.builtin import PROGRAMS
from mlgo_gym.corpus.specification import parse_corpora
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.json_lines import read_json_lines
from tests.ways_to_answer import (
    EVICT,
    INLINE,
    PRIORITY,
    Ways,
    answering_plugin,
    in_wrapper,
    make,
    over_ray,
    policy_objects,
)


def check(
    environment: str, corpus: str, module: str, clang: str | None, plugin: Path | None, *, ray: bool
) -> dict[str, Any]:
    """Return for each way whether it gives the object of a single environment."""
    ways = Ways(environment, corpus, module, clang)
    (first,) = ways.single()
    answers = ways.answers

    def same(way: Callable[[], list[str]]) -> bool:
        return set(way()) == {first} and ways.answers == answers

    others: dict[str, Callable[[], list[str]]] = {
        "vector": ways.vector,
        "forked": ways.forked,
        "warm": ways.warm,
        "ahead": ways.ahead,
    }
    if environment != INLINE:
        others["preoptimized"] = ways.preoptimized
    if ray:
        others["ray"] = partial(over_ray, ways)
    if plugin is not None and environment == INLINE:
        others["plugin"] = partial(ways.plugin, plugin)
    checks: dict[str, Callable[[], bool]] = {name: partial(same, way) for name, way in others.items()}
    sources = (
        list(PROGRAMS.glob(f"{module}.c*")) if parse_corpora(corpus)[0].name == "builtin" and clang is None else []
    )
    if environment == INLINE and sources:
        checks["mlgo-clang"] = lambda: len(set(in_wrapper(sources[0]))) == 1
    equal, errors = {}, []
    for name, is_equal in checks.items():
        try:
            equal[name] = is_equal()
        except MlgoError as error:
            errors.append(f"{name}: {str(error)[:300]}")
    equal["by function"] = all(whole == part for whole, part in ways.by_function())
    return {"answers": len(answers), "equal": equal, **({"error": "; ".join(errors)} if errors else {})}


def check_policy(source: Path, policy: str, clang: str, plugin: Path | None) -> dict[str, Any]:
    """Return for each way to use a policy whether it gives the object of `gym.make`."""
    objects = policy_objects(source, policy, policy.split("-")[1].capitalize(), clang, plugin)
    return {"policy": policy, "equal": {name: found == objects["gym.make"] for name, found in objects.items()}}


def policy_plugin(policy: str, major: int, folder: Path) -> Path:
    """Build the plugin of a policy."""
    library = folder / "policy.so"
    build_plugin(decision_code(policy, callee_features=True), installed_llvm(f"llvm-config-{major}"), library)
    return library


def check_policies(options: argparse.Namespace, checked: CheckedModules, folder: Path) -> None:
    """Check one policy on the sources of `builtin`."""
    plugin = policy_plugin(options.policy, options.plugin, folder) if options.plugin else None
    clang = options.clang or "bundled"
    for source in sorted(PROGRAMS.rglob("*.c*"))[: options.limit]:
        module = str(source.relative_to(PROGRAMS).with_suffix(""))
        find = partial(check_policy, source, options.policy, clang, plugin)
        checked.check(INLINE, f"builtin with {options.policy}", module, clang, find)
    lines = [entry for _, entry in read_json_lines(options.output) if entry.get("policy") == options.policy]
    for name in dict.fromkeys(name for entry in lines for name in entry["equal"]):
        equal = [entry["equal"][name] for entry in lines if name in entry["equal"]]
        print(f"{name:12} {sum(equal)} of {len(equal)} equal")


def main() -> None:
    """Check the modules that the output lacks."""
    parser = checking_parser(__doc__, "runs/ways.jsonl")
    parser.add_argument("--plugin", type=int, help="major version of the LLVM to build a plugin for; needs its --clang")
    parser.add_argument("--policy", help="a bundled policy to compile with, instead of random answers")
    parser.add_argument("--ray", action="store_true", help="also in a worker of a Ray cluster on this machine")
    options = parser.parse_args()
    with CheckedModules(options.output) as checked, tempfile.TemporaryDirectory() as folder:
        if options.policy:
            check_policies(options, checked, Path(folder))
            return
        plugin = answering_plugin(options.plugin, Path(folder)) if options.plugin else None
        for corpus in options.corpus:
            for environment in options.environment or (INLINE, EVICT, PRIORITY):
                env = make(environment, corpus, clang=options.clang)
                clang = env.toolchain.version_text + ("" if env.toolchain.bundled else " (Debian)")
                for module in list(env.with_decisions())[: options.limit]:
                    find = partial(check, environment, corpus, module.name, options.clang, plugin, ray=options.ray)
                    checked.check(environment, corpus, module.name, clang, find)


if __name__ == "__main__":
    main()
