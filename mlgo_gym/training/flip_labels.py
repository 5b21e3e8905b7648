"""Labels of inlining decisions by flips: the change of the module's cost with the other action, for many decisions.

A compile flips one decision in each of many functions that are independent of each other.
"""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, MODULE_SHARE
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.decision_code import CallGraph
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.affected_functions import AffectedFunctions, flip_effects, independent
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, InlineDecision, run_inline_compile
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.llvm.sizes import size_changes
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.protocol import Policy, decide
from mlgo_gym.tasks.task import Task
from mlgo_gym.training.graph_labels import graph_columns
from mlgo_gym.training.labels import ModuleLabels, cpu_seconds, printable

MAX_FLIPS = 400
"""Maximum number of flipped decisions per compile."""

GRAPH_FUNCTIONS = 32
"""Maximum number of functions in the graph of a label, those nearest to the call."""

MAX_ATTEMPTS = 3
"""Number of ambiguous flips after which a decision is not tried again."""

_UNSTABLE = frozenset(
    (
        *("node_count", "edge_count", "callee_users", "caller_users", "last_call_to_static_bonus"),
        *(INLINING_DEFAULT, "cost_estimate", "cold_cc_penalty", *CALLEE_FEATURES),
    )
)
"""Features that flips of other decisions change. The others identify a decision."""


def label_by_flips(
    env: CompilerEnv,
    policy: Policy,
    module: str,
    *,
    compiles: int = 40,
    seconds: float = float("inf"),
    seed: int = 0,
) -> ModuleLabels:
    """Label the inlining decisions of a module around a policy.

    The policy compiles the module once. Each further compile flips one decision in each of many functions that are
    independent of each other, and attributes the change of each function to the flip that reaches it. Flips that share
    a changed function get no label. A compile gives no labels if its flips do not explain its changes.

    At most `compiles` compiles run, and none starts after `seconds` of CPU time. The metric of the environment is a sum
    over functions.

    Returns:
        The labels: `bytes` is the cost with the call inlined minus that without, in bytes or in the unit of the metric;
        with weights, in billionths of the baseline. With `ir=True` each label has the call graph at its decision
        under the policy. The counts are:

        | count | meaning |
        |---|---|
        | `decisions`, `text` | decisions of the policy, and the cost under the policy |
        | `compiles`, `failed`, `seconds` | compiles, failed ones, and the CPU time of all |
        | `flips`, `missed` | flipped decisions, and those that did not occur in their compile, due to another flip |
        | `ambiguous` | flipped decisions that share a changed function with another one |
        | `unbalanced` | compiles without labels, because the flips do not explain the changes |

    Raises:
        CompilerError: the compile under the policy failed, or its program.
        MlgoError: the task has other decisions than inlining, or the metric is no sum over functions.
    """
    work = _InlineLabelling(env, policy, module, seed)
    started = cpu_seconds()
    while work.counts["compiles"] < compiles and cpu_seconds() - started < seconds and work.flip_many():
        pass
    return work.module_labels(cpu_seconds() - started)


class _InlineLabelling:
    def __init__(self, env: CompilerEnv, policy: Policy, module: str, seed: int) -> None:
        # Bytes, because a file name may be invalid UTF-8.
        self._chance = random.Random(f"{seed} {module}".encode(errors="surrogateescape"))  # noqa: S311 - no secret
        self._task, self._timeout = env.task, env.setup.timeout
        self._policy, self._module = policy, module
        self._compilation = env.compilation(env.corpus.module(module))
        self._costs = FunctionCosts(env.setup, self._compilation)
        self._dtype = self._task.headers[0].dtype
        self._graphs: dict[DecisionSite, CallGraph] = {}
        self._stable = [name for name in self._dtype.names or () if name not in _UNSTABLE]
        self._unflipped, _ = self._compile({})
        self._decisions = self._unflipped.decisions
        self._before = self._costs.of(self._unflipped).functions
        self.counts = Counter(compiles=1, flips=0, missed=0, ambiguous=0, unbalanced=0, failed=0)
        self._labels: dict[DecisionSite, int] = {}
        self._attempts: dict[DecisionSite, int] = defaultdict(int)
        sizes = self._unflipped.functions.functions
        self._affected = AffectedFunctions(self._decisions, sizes, counts_calls=self._costs.counts_calls)
        interest = _interest(self._task, policy, self._decisions)
        self._interest = {decision.site: value for decision, value in zip(self._decisions, interest, strict=True)}

    def _stable_features(self, payload: bytes) -> list[Any]:
        record = np.frombuffer(payload, self._dtype, 1)[0]
        return [record[name].tolist() for name in self._stable]

    def _compile(self, flips: dict[DecisionSite, InlineDecision]) -> tuple[InlineCompile, list[InlineDecision]]:
        """Return the compile with some decisions flipped, and those of them that occurred."""
        done: list[InlineDecision] = []
        indices = itertools.count()

        def choose(decision: Decision) -> int:
            answer = int(decide(self._policy, self._task, decision, self._module, next(indices)))
            if decision.code is not None and not flips:
                self._graphs[decision.site] = decision.code.call_graph(GRAPH_FUNCTIONS)
            flip = flips.get(decision.site)
            if flip is None or self._stable_features(flip.payload) != self._stable_features(decision.payload):
                return answer
            done.append(flip)
            return 1 - flip.answer

        return run_inline_compile(self._compilation, self._task, choose, self._timeout), done

    def _candidates(self) -> list[InlineDecision]:
        """Return one decision of each component, the most interesting components first."""
        waiting: dict[str, list[InlineDecision]] = defaultdict(list)
        for decision in self._decisions:
            if decision.site not in self._labels and self._attempts[decision.site] < MAX_ATTEMPTS:
                waiting[decision.context].append(decision)
        interest = {name: [self._interest[decision.site] for decision in group] for name, group in waiting.items()}
        priority = {
            name: max(interest[name]) * len(group) ** 0.5 * self._chance.random() for name, group in waiting.items()
        }
        order = sorted(waiting, key=lambda name: -priority[name])
        return [self._chance.choices(waiting[name], interest[name])[0] for name in order]

    def flip_many(self) -> bool:
        """Make one compile; return whether any decision was left to flip."""
        flips = independent(self._candidates(), lambda flip: self._affected.of([flip]), MAX_FLIPS)
        if not flips:
            return False
        for flip in flips:
            self._attempts[flip.site] += 1
        self.counts.update(compiles=1, flips=len(flips))
        try:
            compiled, done = self._compile({flip.site: flip for flip in flips})
            changes = size_changes(self._before, self._costs.of(compiled).functions)
        except CompilerError:
            self.counts["failed"] += 1
            return True
        effects = flip_effects(
            self._decisions,
            compiled.decisions,
            changes,
            done,
            self._before.functions,
            counts_calls=self._costs.counts_calls,
        )
        self.counts.update(missed=len(flips) - len(done), ambiguous=len(done) - len(effects.bytes))
        if not effects.is_reliable:
            self.counts["unbalanced"] += 1
            return True
        for index, change in effects.bytes.items():
            self._labels[done[index].site] = -change if done[index].answer else change
        return True

    def module_labels(self, seconds: float) -> ModuleLabels:
        """Return the labels in the order of the decisions, and the counts."""
        text, size = self._before.text, len(self._decisions)
        counts = {"text": text, "decisions": size, **self.counts, "seconds": seconds}
        decisions = [decision for decision in self._decisions if decision.site in self._labels]
        if not decisions:
            return ModuleLabels({}, counts)
        records = np.frombuffer(b"".join(decision.payload for decision in decisions), self._dtype)
        columns: dict[str, Any] = {}
        for name in self._dtype.names or ():
            values = records[name].reshape(len(records), -1)
            if name in CALLEE_FEATURES and name != MODULE_SHARE:
                values = values.astype(np.int32)
            columns[name] = values[:, 0].copy() if values.shape[1] == 1 else values.tolist()
        columns |= {
            "answer": np.array([decision.answer for decision in decisions], np.int8),
            "bytes": np.array([self._labels[decision.site] for decision in decisions]),
            "text": np.full(len(decisions), text),
            "decisions": np.full(len(decisions), size, np.int32),
            "context": [printable(decision.context) for decision in decisions],
            "visit": np.array([decision.site.visit for decision in decisions], np.int32),
            "position": np.array([decision.site.index for decision in decisions], np.int32),
            "callee": [printable(decision.callee) for decision in decisions],
        }
        if self._graphs:
            columns |= graph_columns([self._graphs[decision.site] for decision in decisions])
        return ModuleLabels(columns, counts)


def _interest(task: Task, policy: Policy, decisions: Sequence[InlineDecision]) -> list[float]:
    """Return a weight for each decision: larger if the policy is unsure or disagrees with clang."""
    interest = [0.1 + float(decision.answer != decision.default) for decision in decisions]
    if not decisions or not isinstance(policy, MlpPolicy):
        return [value + 0.9 for value in interest]
    logits = policy.logits(task.observe(Decision(0, decision.site, decision.payload)) for decision in decisions)
    return [value + float(np.exp(-abs(logit))) for value, logit in zip(interest, logits, strict=True)]
