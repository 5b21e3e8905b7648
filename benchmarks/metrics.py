"""Each metric against exact quantities under good and bad policies; writes docs/results/metrics.json.

    python -m benchmarks.metrics [--only linked]

One episode measures all metrics of a module. Exact are the bytes that memory holds, those of the linked file with this
module, and the counted instructions of its program. A metric that falls where the exact quantity rises pays for harm.
The same command resumes: a policy in the file is not measured again.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import RESULTS, Table, command_line, read_json, write_json
from mlgo_gym.errors import CompilerError, NoDecisionError
from mlgo_gym.evaluation.runner import EvaluatedPolicies, RunnerSettings
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.policies.protocol import run_episode


class Group(NamedTuple):
    """Modules that are measured together: environment, corpora, policies, metrics, and exact quantities among them."""

    environment: str
    corpora: tuple[str, ...]
    policies: tuple[str, ...]
    metrics: tuple[str, ...]
    exact: tuple[str, ...]


_INLINING = ("never", "always", "random")
_SIZES = ("text", "llvm_size", "loaded", "object")
GROUPS = {
    "programs": Group(
        "mlgo/Inline-v0",
        ("builtin@Os",),
        (*_INLINING, "last-call", "inline-os"),
        (*_SIZES, "max_frame", "instructions"),
        ("loaded", "instructions"),
    ),
    "linked": Group(
        "mlgo/Inline-v0",
        ("pypi:marisa-trie==1.4.1@Oz", "pypi:python-crfsuite==0.9.12@Oz"),
        (*_INLINING, "last-call", "inline-oz"),
        (*_SIZES, "linked"),
        ("linked",),
    ),
    "allocation": Group(
        "mlgo/RegAllocEvict-v0",
        ("builtin@O2:test",),
        ("never_evict", "first_legal", "random", "evict"),
        ("spill_cost", "spill_count", "text", "instructions"),
        ("instructions",),
    ),
}


def measure(group: Group, policy: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return each metric of each module with decisions by the policy and by plain clang; failed compiles are absent."""
    found = {}
    for corpus in group.corpora:
        arguments: dict[str, Any] = {"metric": dict.fromkeys(group.metrics, 1.0)}
        settings = RunnerSettings(group.environment, corpus, arguments=arguments, policies={policy: policy})
        with closing(EvaluatedPolicies(settings)) as evaluated:
            act = evaluated.policies[policy].act
            for name in evaluated.env.corpus.names:
                try:
                    _, _, info = run_episode(evaluated.env, act, options={"module": name})
                except (CompilerError, NoDecisionError):
                    continue
                if not info["error"]:
                    found[name] = {metric: (info[metric], info[f"baseline_{metric}"]) for metric in group.metrics}
    return found


def compared(modules: dict[str, Any], metric: str, exact: str) -> tuple[Change, Change, float]:
    """Return the changes of a metric and of an exact quantity, and the share of modules with opposite signs."""
    both = [Change(tuple(tuple(row[name]) for row in modules.values())) for name in (metric, exact)]
    pairs = zip(*(change.logarithms for change in both), strict=True)
    return both[0], both[1], sum(one * other < 0 for one, other in pairs) / len(modules)


def main() -> None:
    """Measure the policies that the results lack, and print each metric beside each exact quantity."""
    parser = command_line(__doc__)
    parser.add_argument("--only", choices=GROUPS, nargs="+", default=list(GROUPS), help="groups (default: all)")
    parser.add_argument("--output", type=Path, default=RESULTS / "metrics.json", help="path of the results")
    options = parser.parse_args()
    results = read_json(options.output, {})
    table = Table({"policy": "<12", "modules": ">7", "metric": "<16", "change": ">+9.2%", "exact": "<12",
                   "its change": ">+10.2%", "opposite": ">8.0%"})  # fmt: skip
    for name in options.only:
        group = GROUPS[name]
        for policy in group.policies:
            of_group = results.setdefault(name, {})
            if policy not in of_group:
                of_group[policy] = measure(group, policy)
                write_json(options.output, results)
            for metric in group.metrics:
                for exact in group.exact:
                    ours, theirs, opposite = compared(of_group[policy], metric, exact)
                    table.row(policy, len(ours.pairs), metric, ours.mean, exact, theirs.mean, opposite)


if __name__ == "__main__":
    main()
