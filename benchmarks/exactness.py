"""Equality of objects: plain compiles, replays of clang's own choices, and every way to send the same decisions.

    python -m benchmarks.exactness own --corpus builtin --corpus zstd --corpus zstd@Os
    python -m benchmarks.exactness ways --corpus builtin --limit 20 [--clang clang-22 --plugin 22] [--ray]
    python -m benchmarks.exactness rule --corpus box2d-py --corpus zstd --clang clang-22 --plugin 22

`own` compiles each module plainly, and with clang's own choice as the answer to every request; a difference is tested
for its known causes. `ways` gives one list of random answers per module in a single environment and in the other ways:
a vector environment, forks, forked resets, episodes of one function, a pass plugin, Ray, and `mlgo-clang`. `rule`
compares `last-call` in the plugin of `export plugin`, which knows each callee, with the environment, which predicts it:
decision by decision, after equal earlier decisions.

Each appends a line of JSON per module to runs/exactness-KIND.jsonl, so the same command resumes an interrupted run.
`--collect` adds that file to docs/results/exactness.json, where the last result of a module counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import RESULTS, CheckedModules, command_line, write_result
from mlgo_clang.channel import REMARKS, SIZE_LIMIT
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.builtin import PROGRAMS
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.deploy.c_code import DecisionCode
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_decision_code
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.policies.loading import policy_file
from mlgo_gym.policies.rules import RuleText
from mlgo_gym.tasks.task import Task
from tests.ways_to_answer import EVICT, INLINE, PRIORITY, TIMEOUT, Ways, digest, in_wrapper, make, over_ray

DATA = RESULTS / "exactness.json"

ENVIRONMENTS = {"own": (INLINE, EVICT), "ways": (INLINE, EVICT, PRIORITY), "rule": (INLINE,)}
"""Environments of each kind of check; the features of the first ones give clang's own choice."""

CAUSES = ("the size cut-off", "calls that only unwinding reaches")
"""Beginnings of the explanations that a compile of the module has confirmed."""

RULE = "last-call"
"""The rule in a plugin and in an environment."""

Entry = dict[str, Any]


def replayed(compilation: Compilation, task: Task, flags: tuple[str, ...] = ()) -> tuple[bytes, bytes, int]:
    """Return the objects of a plain compile and of a replay of clang's own choices, and the number of decisions."""
    command = (*compilation.command, *flags)
    with Session(command) as session:
        plain = session.finish(TIMEOUT).object_bytes
    decisions: list[Decision] = []

    def choose(decision: Decision) -> bytes:
        decisions.append(decision)
        return task.default_advice(decision)

    with Session(command, task.advisors) as session:
        return plain, drive(session, choose, TIMEOUT).object_bytes, len(decisions)


def with_infinite_weights(compilation: Compilation, task: Task) -> int:
    """Return the number of decisions with an infinite weight, where all finite weights are shown as 0."""
    count = 0

    def choose(decision: Decision) -> bytes:
        nonlocal count
        header = session.header()
        assert header is not None
        weights = np.frombuffer(decision.payload, header.dtype)["use_def_density"]
        count += bool(np.isnan(weights).any())
        return task.default_advice(decision)

    with Session(compilation.command, task.advisors) as session:
        drive(session, choose, TIMEOUT)
    return count


def explained(compilation: Compilation, env: CompilerEnv) -> str:
    """Return the cause of a difference between the plain object and that of clang's own choices."""
    if env.task.after_optimization:
        infinite = with_infinite_weights(compilation, env.task)
        return f"infinite weights at {infinite} decisions" if infinite else "no"
    plain, replay, decisions = replayed(compilation, env.task, ("-mllvm", f"{SIZE_LIMIT}=1000"))
    if plain == replay:
        return CAUSES[0]
    return f"no: {decisions} decisions without the cut-off"


def check_own(environment: str, corpus: str, module: str, clang: str | None) -> Entry:
    """Return whether the replay of a module gives its plain object, and the cause of a difference."""
    env = make(environment, corpus, clang=clang)
    if env.task.after_optimization:
        env = make(environment, corpus, clang=clang, compile_options={"preoptimize": False})
    compilation = env.compilation(env.corpus.module(module))
    plain, replay, decisions = replayed(compilation, env.task)
    if plain == replay:
        return {"decisions": decisions, "equal": True, "text": [], "explained": ""}
    sizes = [object_sizes(data).text for data in (plain, replay)]
    return {"decisions": decisions, "equal": False, "text": sizes, "explained": explained(compilation, env)}


def answering_plugin(major: int, folder: Path) -> Path:
    """Build a plugin that reads the answers from the file `$MLGO_ANSWERS`; too short a file aborts clang."""
    code = """#include <stdio.h>
#include <stdlib.h>
static int mlgo_yes(const float *) {
  static FILE *answers = fopen(getenv("MLGO_ANSWERS"), "r");
  int answer = fgetc(answers);
  if (answer == EOF)
    abort();
  return answer == '1';
}
"""
    library = folder / "answering.so"
    build_plugin(DecisionCode("a list of answers", (), code), installed_llvm(f"llvm-config-{major}"), library)
    return library


def in_plugin(ways: Ways, library: Path) -> list[str]:
    """Answer in a pass plugin of `answering_plugin()`."""
    env = ways.make()
    compilation = env.compilation(env.corpus.module(ways.module))
    with tempfile.TemporaryDirectory() as folder:
        answers, output = Path(folder, "answers"), Path(folder, "object.o")
        answers.write_bytes(bytes(48 + (int.from_bytes(each, "little") != 0) for each in ways.answers))
        subprocess.run(
            [*compilation.command, f"-fpass-plugin={library}", "-o", str(output)],
            env={**os.environ, "MLGO_ANSWERS": str(answers)}, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return [digest(output.read_bytes())]


def check_ways(
    environment: str, corpus: str, module: str, clang: str | None, plugin: Path | None, *, ray: bool
) -> Entry:
    """Return for each way whether it gives the object of a single environment."""
    ways = Ways(environment, corpus, module, clang)
    (first,) = ways.single()
    answers = ways.answers

    def same(way: Callable[[], list[str]]) -> bool:
        return set(way()) == {first} and ways.answers == answers

    names = ["vector", "forked", "warm", *(["preoptimized"] if environment != INLINE else [])]
    others: dict[str, Callable[[], list[str]]] = {name: getattr(ways, name) for name in names}
    if ray:
        others["ray"] = partial(over_ray, ways)
    if plugin is not None and environment == INLINE:
        others["plugin"] = partial(in_plugin, ways, plugin)
    checks: dict[str, Callable[[], bool]] = {name: partial(same, way) for name, way in others.items()}
    sources = list(PROGRAMS.glob(f"{module}.c*")) if corpus.partition("@")[0] == "builtin" and clang is None else []
    if environment == INLINE and sources:
        checks["mlgo-clang"] = lambda: len(set(in_wrapper(sources[0]))) == 1
    equal, errors = {}, []
    for name, is_equal in checks.items():
        try:
            equal[name] = is_equal()
        except MlgoError as error:
            errors.append(f"{name}: {str(error)[:300]}")
    if environment != INLINE:
        equal["by function"] = all(whole == part for whole, part in ways.by_function())
    return {"answers": len(answers), "equal": equal, **({"error": "; ".join(errors)} if errors else {})}


def check_rule(corpus: str, module: str, clang: str | None, plugin: Path) -> Entry:
    """Return how many callees the environment predicts wrongly, and how many decisions differ from the plugin's.

    The environment answers as the plugin did, so that the decisions before each one are equal.
    """
    env, rule = make(INLINE, corpus, callee_features=True, clang=clang), RuleText.load(policy_file(RULE))
    compilation, header = env.compilation(env.corpus.module(module)), env.task.headers[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [*compilation.command, *REMARKS, f"-fpass-plugin={plugin}", "-o", f"{folder}/object.o"]
        printed = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
    # Calls that must be inlined have remarks without features.
    answers = re.findall(rb"\d(true|false) \[-Rpass(?:-missed)?=inline-ml\]\n", printed)[::-1]
    differing = []

    def choose(decision: Decision) -> int:
        record, answer = np.frombuffer(decision.payload, header.dtype, 1)[0], answers.pop() == b"true"
        differing.append(rule(np.array([record[name][0] for name in rule.features], np.float32)) != answer)
        return int(answer)

    decisions = run_inline_compile(compilation, env.task, choose, TIMEOUT).decisions
    wrong = sum(decision.predicted_callee != decision.callee for decision in decisions)
    return {"decisions": len(decisions), "wrong_callees": wrong, "differing": sum(differing)}


def check_corpora(options: argparse.Namespace, checked: CheckedModules, folder: Path) -> None:
    """Check the modules of the corpora, by clang's own choices, in all ways, or by a rule in a plugin."""
    own, by_rule = options.kind == "own", options.kind == "rule"
    plugin = answering_plugin(options.plugin, folder) if options.plugin and options.kind == "ways" else None
    rule = folder / "rule.so"
    if by_rule:
        build_plugin(plugin_decision_code(RULE), installed_llvm(f"llvm-config-{options.plugin}"), rule)
    for corpus in options.corpus:
        for environment in ENVIRONMENTS[options.kind]:
            env = make(environment, corpus, clang=options.clang)
            clang = env.toolchain.version_text + ("" if own or env.toolchain.bundled else " (Debian)")
            for module in list(env.with_decisions() if options.kind == "ways" else env.corpus)[: options.limit]:
                words = (environment, corpus, module.name, options.clang)
                find = partial(check_own, *words) if own else partial(check_ways, *words, plugin, ray=options.ray)
                if by_rule:
                    find = partial(check_rule, *words[1:], rule)
                checked.check(environment, corpus, module.name, clang, find)


def own_choices(own: list[Entry], choices: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of plain compiles and replays, by environment and level.

    `choices` are replays of choices that a debugger read, which prove that a difference comes of infinite weights.
    """
    proved = {
        (entry["corpus"], entry["module"])
        for entry in choices
        if entry.get("equal") and entry["differing"] == entry["infinite_weights"] and not entry["unmatched"]
    }

    def is_explained(entry: Entry) -> bool:
        if entry["environment"] == EVICT:
            return (entry["corpus"], entry["module"]) in proved
        return str(entry.get("explained", "")).startswith(CAUSES)

    yield ["environment", "level", "modules", "decisions", "same object", "cause confirmed", "unexplained"]
    own = [entry for entry in own if entry["corpus"].count("@") < 2]  # without a target
    for (environment, level), group in groups(own, lambda entry: (entry["environment"], level_of(entry))):
        equal = sum(entry.get("equal", False) for entry in group)
        confirmed = sum(is_explained(entry) for entry in group if not entry.get("equal"))
        decisions = sum(entry.get("decisions", 0) for entry in group)
        counts = (len(group), decisions, equal, confirmed, len(group) - equal - confirmed)
        yield [environment[5:-3], level, *(f"{count:,}" for count in counts)]


def ways_to_answer(ways: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of ways to send the same decisions, by environment."""
    names = list(dict.fromkeys(name for entry in ways for name in entry.get("equal", {})))
    yield ["environment", "modules", "decisions", *names]
    for (environment,), group in groups(ways, lambda entry: (entry["environment"],)):
        answers = sum(entry.get("answers", 0) for entry in group)
        checks = [[entry["equal"][name] for entry in group if name in entry.get("equal", {})] for name in names]
        cells = [f"{sum(equal)} of {len(equal)}" if equal else "-" for equal in checks]
        yield [environment[5:-3], f"{len(group)}", f"{answers:,}", *cells]


def level_of(entry: Entry) -> str:
    """Return the level in the name of an entry's corpus."""
    return "-Os" if "@Os" in entry["corpus"] else "-Oz"


def groups(
    entries: list[Entry], key: Callable[[Entry], tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[Entry]]]:
    """Yield the entries by key, in the order of the keys."""
    return ((name, list(group)) for name, group in groupby(sorted(entries, key=key), key))


def collect(kind: str, output: Path) -> None:
    """Add the lines of a file to the results: one entry for each module, environment and compiler."""
    data = json.loads(DATA.read_text())
    merged: dict[tuple[str, ...], Entry] = {}
    for entry in [*data.get(kind, []), *map(json.loads, output.read_text().splitlines())]:
        key = tuple(entry[name] for name in ("corpus", "environment", "clang", "module"))
        if isinstance(entry.get("equal"), dict):
            entry["equal"] = {**merged.get(key, {}).get("equal", {}), **entry["equal"]}
        merged[key] = entry
    data[kind] = list(merged.values())
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, entries)) + "\n]" for name, entries in data.items()]
    write_result(DATA, "{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    """Check the modules that the output lacks."""
    parser = command_line(__doc__)
    parser.add_argument("kind", choices=ENVIRONMENTS)
    parser.add_argument("--corpus", action="append", default=[], help="a corpus; repeatable")
    parser.add_argument("--clang", help="the compiler (default: the bundled one)")
    parser.add_argument("--limit", type=int, help="number of modules per corpus (default: all)")
    parser.add_argument("--plugin", type=int, help="major version of the LLVM to build a plugin for; needs its --clang")
    parser.add_argument("--ray", action="store_true", help="also in a worker of a Ray cluster on this machine")
    parser.add_argument("--output", type=Path, help="file of JSON lines (default: runs/exactness-KIND.jsonl)")
    parser.add_argument("--collect", action="store_true", help="add the output to docs/results/exactness.json")
    options = parser.parse_args()
    output = options.output or Path(f"runs/exactness-{options.kind}.jsonl")
    with closing(CheckedModules(output)) as checked, tempfile.TemporaryDirectory() as folder:
        check_corpora(options, checked, Path(folder))
    if options.collect:
        collect(options.kind, output)


if __name__ == "__main__":
    main()
