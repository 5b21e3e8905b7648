"""One rule per callee at -Oz, with the prices of a first compile: inline all calls and drop the function, or none.

    python -m benchmarks.callee_rule --corpora lupa:train brotli:train --output docs/results/callee_rule.json
    python -m benchmarks.callee_rule --held-out --rules body:20 --output docs/results/callee_rule.json

The first compile takes clang's own choices. It gives the bytes of each function that the object contains, and clang's
cost estimate of each call. For a local function whose uses are all direct calls, a rule predicts the bytes of both
ways: `growth:K` expects that an inlined call adds K bytes per unit of clang's estimate, and `body:C` that it adds the
function's bytes less C. The second compile inlines all calls of the functions where that is predicted to be smaller,
keeps all calls where that is, and takes clang's own choices elsewhere. The smaller object of both compiles never is
larger than clang's. The held-out modules are those of docs/results/search_five_compiles.json.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.attribution.inline_compile import InlineCompile, InlineDecision, run_inline_compile
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import Change
from mlgo_gym.session.protocol.decision import Decision

ROOT = Path(__file__).parents[1]
FIVE_COMPILES = ROOT / "docs" / "results" / "search_five_compiles.json"
RULES = ("growth:0.5", "growth:0.8", "growth:1.1", "body:12", "body:20", "body:30")
INTERNAL = 0
"""The feature `callee_linkage` of a local function."""


class FirstCompile:
    """A compile with clang's own choices, and the calls of each local function.

    Args:
        env: The environment, with callee features.
        module: Name of the module.
    """

    def __init__(self, env: CompilerEnv, module: str) -> None:
        self._env = env
        self._compilation = env.compilation(env.corpus.module(module))
        self.compiled = self._compile({})
        self._calls: dict[str, list[InlineDecision]] = defaultdict(list)
        for decision in self.compiled.decisions:
            if decision.callee:
                self._calls[decision.callee].append(decision)

    def _compile(self, answers: Mapping[str, int]) -> InlineCompile:
        task = self._env.task

        def choose(decision: Decision) -> int:
            answer = answers.get(decision.callee or "")
            return int(task.default_action(decision)) if answer is None else answer

        return run_inline_compile(self._compilation, task, choose, self._env.setup.timeout)

    def choose(self, rule: str, margin: float) -> dict[str, int]:
        """Return the answer for all calls of each function where a rule predicts fewer bytes than clang's choices."""
        kind, _, number = rule.partition(":")
        dtype = self._env.task.headers[0].dtype
        answers = {}
        for callee, calls in self._calls.items():
            size = self.compiled.functions.size(callee)
            first = np.frombuffer(calls[0].payload, dtype, 1)[0]
            is_local = first["callee_linkage"][0] == INTERNAL and first["callee_users"][0] == len(calls)
            if not size or not is_local:
                continue
            growths = [float(number) * call.estimate if kind == "growth" else size - float(number) for call in calls]
            today = size + sum(growth for growth, call in zip(growths, calls, strict=True) if call.answer)
            predicted = {1: sum(growths), 0: float(size)}
            best = min(predicted, key=lambda answer: predicted[answer])
            if predicted[best] < today - margin and any(call.answer != best for call in calls):
                answers[callee] = best
        return answers

    def bytes_by(self, answers: Mapping[str, int]) -> int:
        """Return the bytes of the second compile."""
        return self._compile(answers).text if answers else self.compiled.text


def eligible(env: CompilerEnv, limit: int) -> list[str]:
    """Return at most `limit` modules with 3 to 1,500 decisions and at most 250 kB of bitcode, drawn with seed 0."""
    names = [
        module.name
        for module in env.corpus
        if module.bitcode.stat().st_size <= 250_000 and 3 <= sum(env.decisions(module).values()) <= 1500
    ]
    return sorted(random.Random(0).sample(names, min(limit, len(names))))


def measure(corpus: str, names: Iterable[str] | None, options: Any) -> list[dict[str, Any]]:
    """Return the bytes of each module by clang and by each rule."""
    env = InlineEnv(corpus=corpus, callee_features=True)
    rows = []
    for name in names if names is not None else eligible(env, options.limit):
        try:
            first = FirstCompile(env, name)
            known: dict[tuple[tuple[str, int], ...], int] = {}
            found = {}
            for rule in options.rules:
                answers = first.choose(rule, options.margin)
                key = tuple(sorted(answers.items()))
                known[key] = known[key] if key in known else first.bytes_by(answers)
                found[rule] = {"functions": len(answers), "bytes": known[key]}
        except MlgoError as error:
            print(f"{corpus} {name}: {error}", flush=True)
            continue
        rows.append({"corpus": corpus, "module": name, "clang": first.compiled.text, "rules": found})
        print(rows[-1], flush=True)
    env.close()
    return rows


def summary(rows: Sequence[Mapping[str, Any]], rule: str, *, verified: bool) -> dict[str, Any]:
    """Return the figures of a rule; `verified` keeps clang's object where the second is not smaller."""
    pairs = []
    for row in rows:
        found = row["rules"][rule]["bytes"]
        pairs.append((min(found, row["clang"]) if verified else found, row["clang"]))
    change = Change(tuple(pairs), tuple(row["corpus"] for row in rows))
    interval = estimates(change).mean
    return {
        "mean": change.mean,
        "low": interval.low,
        "high": interval.high,
        "total": change.total,
        "smaller": change.better,
        "larger": change.worse,
        "modules": len(pairs),
    }


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpora", nargs="*", default=[], help="corpora on which a rule is chosen")
    parser.add_argument("--held-out", action="store_true", help="the held-out modules instead")
    parser.add_argument("--rules", nargs="+", default=RULES, help="rules")
    parser.add_argument(
        "--margin", type=float, default=4.0, help="predicted bytes that a change must save (default: 4)"
    )
    parser.add_argument("--limit", type=int, default=6, help="modules per corpus (default: 6)")
    parser.add_argument("--output", type=Path, help="JSON file to extend")
    options = parser.parse_args()
    chosen: dict[str, list[str] | None] = dict.fromkeys(options.corpora)
    if options.held_out:
        held_out: dict[str, list[str]] = {}
        for row in json.loads(FIVE_COMPILES.read_bytes())["rows"]:
            held_out.setdefault(row["corpus"], []).append(row["module"])
        chosen = {**held_out}
    rows = [row for corpus, names in chosen.items() for row in measure(corpus, names, options)]
    table = Table(
        {"rule": "<12", "object": "<15", "mean": ">+8.2%", "total": ">+8.2%", "smaller": ">7", "larger": ">6"}
    )
    results: dict[str, Any] = {}
    for rule in options.rules:
        results[rule] = {}
        for name, verified in (("second", False), ("smaller of both", True)):
            found = results[rule][name] = summary(rows, rule, verified=verified)
            table.row(rule, name, found["mean"], found["total"], found["smaller"], found["larger"])
    if options.output:
        record = json.loads(options.output.read_bytes()) if options.output.exists() else {}
        record["held-out" if options.held_out else "training"] = {"rules": results, "rows": rows}
        write_json(options.output, record)


if __name__ == "__main__":
    main()
