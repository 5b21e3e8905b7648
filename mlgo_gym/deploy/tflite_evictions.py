"""A network for evictions as a TensorFlow Lite model, in the folder that LLVM's `-regalloc-model` takes.

The graph does what `eviction.c` does, for all columns at once: clang's own choice by `mlgo_gym.llvm.eviction_rule`, the
inputs of the network, and the column with the smallest output. Inputs are `action_FEATURE:0` of the shapes and types of
llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp.
"""

from __future__ import annotations

import numpy as np

from mlgo_gym.deploy.decision_code import EVICTION_COLUMNS, EVICTION_INTEGERS, EVICTION_RULE
from mlgo_gym.deploy.network_graph import forward
from mlgo_gym.deploy.tflite_model import PREFIX, TfliteGraph
from mlgo_gym.policies.eviction import COLUMN_FEATURES
from mlgo_gym.policies.network import Network

EVICTION_DECISION = "index_to_evict"
"""The output that is the advice; named as in llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp."""

_LARGEST = float(np.finfo(np.float32).max)
_BOUND = 2.0**53  # as in observations of an environment


def tflite_evictions(name: str, network: Network) -> bytes:
    """Return a TensorFlow Lite model of a network of `EvictionPolicy`, with the output `index_to_evict:0`, int64.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
    """
    graph = _EvictionGraph(name)
    columns, each = EVICTION_COLUMNS, len(COLUMN_FEATURES)
    inputs = [
        graph.input(f"{PREFIX}{feature}:0", (1, columns), np.int64 if feature in EVICTION_INTEGERS else np.float32)
        for feature in COLUMN_FEATURES
    ]
    mask = graph.input(f"{PREFIX}mask:0", (1, columns))
    progress = graph.input(f"{PREFIX}progress:0", (1,), np.float32)
    floats = [
        graph.cast(value, np.float32) if feature in EVICTION_INTEGERS else value
        for feature, value in zip(COLUMN_FEATURES, inputs, strict=True)
    ]
    # One row per column.
    rows = graph.join([graph.reshape(value, (columns, 1)) for value in floats], 1)
    legal = graph.reshape(
        graph.truth(graph.compare("GREATER", graph.cast(mask, np.float32), graph.number(0))), (columns, 1)
    )
    own = graph.own_choice(rows, legal)
    features = graph.finite(rows, 0)
    last = graph.last_row(features)
    default = graph.gather(features, own, 0)
    registers = graph.times(legal, graph.opposite(graph.is_last()))
    high = graph.constant(np.full((columns, each), _LARGEST, np.float32))
    least = graph.reduce("REDUCE_MIN", graph.choose(registers, features, high), 0, keep=True)
    least = graph.choose(graph.reduce("REDUCE_MAX", registers, 0, keep=True), least, last)
    place = graph.reshape(graph.cast(own, np.float32), (1, 1))
    facts = [
        graph.is_last(),
        graph.spread(graph.truth(graph.compare("EQUAL", place, graph.number(columns - 1)))),
        graph.spread(graph.reshape(graph.finite(progress, 0), (1, 1))),
        graph.spread(graph.reduce("SUM", legal, 0, keep=True)),
        graph.positions(),
        graph.spread(place),
        graph.spread(graph.last_row(legal)),
    ]
    relations = [graph.relation(features, other) for other in (default, last, least)]
    examples = graph.join([features, graph.spread(default), graph.spread(last), *relations, *facts], 1)
    outputs = forward(graph, network, examples)
    others = graph.times(legal, graph.truth(graph.compare("NOT_EQUAL", graph.positions(), place)))
    outputs = graph.choose(others, outputs, graph.constant(np.full((columns, 1), _LARGEST, np.float32)))
    smallest = graph.reduce("REDUCE_MIN", outputs, 0)
    best = graph.cast(graph.place_of("ARG_MIN", outputs), np.float32)
    gains = graph.truth(graph.compare("LESS", smallest, graph.number(0)))
    chosen = graph.choose(gains, best, graph.reshape(place, (1,)))
    graph.output(graph.cast(chosen, np.int64), f"{EVICTION_DECISION}:0")
    return graph.finish()


class _EvictionGraph(TfliteGraph):
    """A graph over the columns of a decision; truth values are float32, 0 or 1."""

    def own_choice(self, rows: int, legal: int) -> int:
        """Return the column of clang's own choice, int32 of shape (1,)."""
        values = {part: self._feature(rows, feature) for part, feature in EVICTION_RULE.items()}
        urgent = self.times(self.finite(values["URGENT"], np.inf), self.number(10))
        broken = self.binary("add", self.finite(values["BROKEN"], np.inf), urgent)
        weight = self.finite(values["WEIGHT"], np.inf)
        hint = self.truth(self.compare("GREATER", values["HINT"], self.number(0)))
        local = self.truth(self.compare("GREATER", values["LOCAL"], self.number(0)))
        decline = self.last_row(legal)
        lighter = self.truth(self.compare("LESS", weight, self.last_row(weight)))
        allowed = self.binary("maximum", lighter, self.opposite(decline))
        finite = self.truth(self.compare("LESS", broken, self.number(np.inf)))
        eligible = self.times(self.times(legal, self.opposite(self.is_last())), self.times(finite, allowed))
        # A local column is taken only if no column before it is.
        later = self.binary("minimum", self.cumulative_sum(eligible, 0, exclusive=True), self.number(1))
        kept = self.times(eligible, self.opposite(self.times(self.times(decline, local), later)))
        # The scan keeps each column that is cheaper than all before it, and stops at the first hint among these.
        fewer, equal = (self._earlier(code, broken) for code in ("LESS", "EQUAL"))
        lower = self.binary("maximum", fewer, self.times(equal, self._earlier("LESS_EQUAL", weight)))
        before = self.constant(np.tril(np.ones((EVICTION_COLUMNS,) * 2, np.float32), -1))
        blocking = self.times(self.times(lower, before), self.reshape(kept, (1, EVICTION_COLUMNS)))
        cheapest = self.times(kept, self.opposite(self.reduce("REDUCE_MAX", blocking, 1, keep=True)))
        first = self.binary("subtract", self.number(1000), self.positions())
        score = self.times(cheapest, self.choose(hint, first, self.binary("add", self.positions(), self.number(1))))
        # Without such a column: nothing if that is legal, else the first legal one.
        falling = np.linspace(0.5, 0.1, EVICTION_COLUMNS, dtype=np.float32)[:, None]
        nothing = self.times(self.is_last(), decline)
        others = self.times(self.times(legal, self.opposite(decline)), self.constant(falling))
        return self.place_of("ARG_MAX", self.binary("add", score, self.binary("add", nothing, others)))

    def _feature(self, rows: int, feature: str) -> int:
        return self.gather(rows, self.constant(np.array([COLUMN_FEATURES.index(feature)], np.int32)), 1)

    def _earlier(self, code: str, values: int) -> int:
        """Return whether the value of column j and that of column i compare so, of shape (i, j)."""
        return self.truth(self.compare(code, self.reshape(values, (1, EVICTION_COLUMNS)), values))

    def number(self, value: float) -> int:
        return self.constant(np.full((1, 1), value, np.float32))

    def positions(self) -> int:
        return self.constant(np.arange(EVICTION_COLUMNS, dtype=np.float32)[:, None])

    def is_last(self) -> int:
        return self.constant(np.eye(EVICTION_COLUMNS, dtype=np.float32)[:, -1:])

    def last_row(self, values: int) -> int:
        return self.gather(values, self.constant(np.array([EVICTION_COLUMNS - 1], np.int32)), 0)

    def truth(self, condition: int) -> int:
        return self.cast(condition, np.float32)

    def opposite(self, truth: int) -> int:
        return self.binary("subtract", self.number(1), truth)

    def times(self, left: int, right: int) -> int:
        return self.binary("multiply", left, right)

    def choose(self, truth: int, yes: int, no: int) -> int:
        return self.select(self.compare("GREATER", truth, self.constant(np.zeros(1, np.float32))), yes, no)

    def finite(self, values: int, nan: float) -> int:
        """Return values within the bounds of observations, and a number in place of NaN."""
        low, high = (self.constant(np.full(1, bound, np.float32)) for bound in (-_BOUND, _BOUND))
        bounded = self.binary("maximum", self.binary("minimum", values, high), low)
        replacement = self.constant(np.full(self.shape(values), nan, np.float32))
        return self.select(self.compare("EQUAL", values, values), bounded, replacement)

    def spread(self, row: int) -> int:
        """Return a row for every column."""
        return self.times(row, self.constant(np.ones((EVICTION_COLUMNS, 1), np.float32)))

    def relation(self, first: int, second: int) -> int:
        """Return the difference relative to the sum of the amounts."""
        amounts = [self.operate("ABS", [each], self.shape(each), np.float32, "Abs") for each in (first, second)]
        total = self.binary("add", self.binary("add", *amounts), self.number(1e-6))
        return self.binary("divide", self.binary("subtract", first, second), total)

    def join(self, parts: list[int], axis: int) -> int:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.operate("CONCATENATION", parts, tuple(shape), np.float32, "Concatenation", axis=axis)

    def place_of(self, code: str, values: int) -> int:
        """Return the first place of the smallest or the largest value of one column, int32 of shape (1,)."""
        inputs = [values, self.constant(np.array([0], np.int32))]
        kind = self._schema.TensorType.INT32
        return self.operate(code, inputs, (1,), np.int32, code.title().replace("_", ""), outputType=kind)
