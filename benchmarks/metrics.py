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

from benchmarks.measuring import RESULTS, command_line, read_json, write_json
from mlgo_gym.errors import CompilerError, NoDecisionError
from mlgo_gym.evaluation.runner import EvaluatedPolicies, RunnerSettings
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.policies.protocol import run_episode


class Group(NamedTuple):
    """Modules that are measured together; exact are some of the metrics."""

    environment: str
    corpora: tuple[str, ...]
    policies: tuple[str, ...]
    metrics: tuple[str, ...]
    exact: tuple[str, ...]


INLINE, RULES = "mlgo/Inline-v0", ("never", "always", "random", "last-call")
SIZES = ("text", "llvm_size", "loaded", "object")
BUILDS = ("pypi:marisa-trie==1.4.1@Oz", "pypi:python-crfsuite==0.9.12@Oz")
SPILLS, EVICTIONS = ("spill_cost", "text"), ("never_evict", "first_legal", "random")
COUNTED = ("instructions",)
GROUPS = {
    "programs": Group(INLINE, ("builtin@Os",), RULES, (*SIZES, "max_frame", *COUNTED), ("loaded", *COUNTED)),
    "linked": Group(INLINE, BUILDS, RULES, (*SIZES, "linked"), ("linked",)),
    "allocation": Group("mlgo/RegAllocEvict-v0", ("builtin@O2:test",), EVICTIONS, (*SPILLS, *COUNTED), COUNTED),
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
                    info = run_episode(evaluated.env, act, options={"module": name})
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
    """Measure the policies that the results lack; `make numbers` writes the tables."""
    parser = command_line(__doc__)
    parser.add_argument("--only", choices=GROUPS, nargs="+", default=list(GROUPS), help="groups (default: all)")
    parser.add_argument("--output", type=Path, default=RESULTS / "metrics.json", help="path of the results")
    options = parser.parse_args()
    results = read_json(options.output, {})
    for name in options.only:
        for policy in GROUPS[name].policies:
            if policy not in results.setdefault(name, {}):
                results[name][policy] = measure(GROUPS[name], policy)
                write_json(options.output, results)
                print(f"{name}, {policy}: {len(results[name][policy])} modules", flush=True)


if __name__ == "__main__":
    main()
