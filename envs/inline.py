"""`mlgo/Inline-v0`: whether to inline a call."""

import os
import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.decision_code import EDGE_COLUMNS, NO_CALLS, NODE_COLUMNS, UNKNOWN_CALL, CallGraph
from mlgo_gym.compiler.probe import probe
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING, INLINING_DEFAULT, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.feature_layout import FeatureLayout
from mlgo_gym.tasks.features import BOUNDS, INLINING_TABLE, FeatureTable
from mlgo_gym.tasks.task import GRAPH, Task
from mlgo_gym.vector_env import CompilerVectorEnv

_WIDTH = 8
"""The bytes of a feature: all are int64."""

_ADVICE = (struct.pack("<q", 0), struct.pack("<q", 1))


class CallGraphSpace(gym.spaces.Graph):
    """A space of graphs that refuses libraries of vectors: they read its shape."""

    @property
    def shape(self) -> None:
        """Raise `MlgoError`: graphs have no shape."""
        raise MlgoError(
            "expected a library with gymnasium.spaces.Graph, got one of arrays; make the environment with "
            "observation='flat'"
        )


class InlineTask(Task):
    """The decisions of LLVM's bottom-up inliner (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

    name: ClassVar[str] = "inlining"
    advisors: ClassVar[tuple[Advisor, ...]] = (INLINING,)
    tables: ClassVar[tuple[FeatureTable, ...]] = (INLINING_TABLE,)
    observations: ClassVar[tuple[str, ...]] = (*Task.observations, GRAPH)

    _misplaced = False

    def _bind(self, observation: str) -> None:
        # The other forms are equal without a mask.
        self._graph = observation == GRAPH
        header = self.headers[0]
        self.layout = FeatureLayout(header, bounds=BOUNDS)
        self.feature_names = self.layout.names
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = flat = self.layout.flat_space()
        if self._graph:
            low, high = (np.pad(bound, (len(EDGE_COLUMNS), 0), constant_values=0) for bound in (flat.low, flat.high))
            low[:], high[: len(EDGE_COLUMNS)] = np.minimum(low, 0), np.inf
            nodes = gym.spaces.Box(0, np.inf, (len(NODE_COLUMNS),))
            self.observation_space = CallGraphSpace(nodes, gym.spaces.Box(low, high))
        self._default = header.offsets[INLINING_DEFAULT]
        self._block_count = header.offsets["callee_basic_block_count"]
        self._choice = self._block_count if self._misplaced else self._default
        self._nothing = bytes(self.layout.dtype.itemsize)

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return no flags; detect whether this clang writes its own choice to the right feature.

        Before llvm/llvm-project#141453 it overwrote `callee_basic_block_count`, and `inlining_default` was always 0.
        """
        trial = probe(toolchain, INLINING)
        # The call of the tiny module saves instructions: every clang inlines it.
        offset = trial.header.offsets[INLINING_DEFAULT]
        self._misplaced = not any(trial.first[offset : offset + _WIDTH])
        return ()

    def features(self, decision: Decision) -> bytes:
        """Return the features with clang's own choice in `inlining_default`, and 0 in the overwritten count."""
        payload = decision.payload
        if not self._misplaced:
            return payload
        count, default = self._block_count, self._default
        choice = payload[count : count + _WIDTH]
        before, between, after = payload[:count], payload[count + _WIDTH : default], payload[default + _WIDTH :]
        return b"".join((before, bytes(_WIDTH), between, choice, after))

    def observe(self, decision: Decision) -> Any:
        """Return the features of a call site, or the call graph around it; `UNKNOWN_CALL` if its code is not kept."""
        features = self.layout.flat(self.features(decision) if self._misplaced else decision.payload)
        if not self._graph:
            return features
        code = decision.code
        return self._draw(UNKNOWN_CALL if code is None else code.call_graph(self.max_functions), features)

    def _draw(self, graph: CallGraph, features: npt.NDArray[np.float32]) -> gym.spaces.GraphInstance:
        """Return a call graph as an observation; the edge of the decision has its features."""
        edges = np.zeros((len(graph.edges), graph.edges.shape[1] + len(features)), np.float32)
        edges[:, : graph.edges.shape[1]] = graph.edges
        edges[:1, graph.edges.shape[1] :] = features
        return gym.spaces.GraphInstance(graph.nodes.astype(np.float32), edges, graph.edge_links)

    def observe_batch(self, decisions: Sequence[Decision | None]) -> Any:
        """Return the features of several call sites, or a tuple of call graphs."""
        if self._graph:
            return tuple(map(self.show, decisions))
        nothing, features = self._nothing, self.features
        return self.layout.flat_batch([nothing if decision is None else features(decision) for decision in decisions])

    def final_observation(self) -> Any:
        """Return zeros, or a graph of one node without edges."""
        if self._graph:
            return self._draw(NO_CALLS, self.layout.flat(self._nothing))
        return self.layout.flat(self._nothing)

    def default_action(self, decision: Decision) -> int:
        """Return clang's own choice, exactly: the feature `inlining_default`."""
        return 1 if decision.payload[self._choice] else 0

    def encode(self, decision: Decision, action: Any) -> bytes | None:  # noqa: ARG002 - both are always legal
        """Return the advice of 0 (keep the call) or 1 (inline it); None for anything else."""
        return _ADVICE[action] if action in (0, 1) else None


class InliningEnv(CompilerEnv):
    """The base class of environments with inlining decisions.

    Args:
        callee_features: Add features of the predicted callee and of earlier decisions (`CALLEE_FEATURES`), and
            `info["callee"]`. A compile takes longer.
        link_facts: File of link facts, written by `mlgo-gym link-facts`, for the features `callee_copies` and
            `callee_references` of `callee_features=True`, and for `link_view=True`. Default: both features are -1,
            unknown; the view has the facts of the recorded build.
        credit: Add the cost that each decision saved (`credit`), the reward of each decision (`rewards`), and the bytes
            of each function to the last `info`. The rewards add up to that of the episode. Each `info` has the site of
            its decision. Needs a metric that is a sum over functions. Costs up to a third of a compile, and one more
            compile per module.
        ir: Follow the code that clang prints, for `env.unwrapped.ir()` and `env.unwrapped.call_graph()`. A compile
            takes longer, and the first episode of a module one more compile, up to the inliner.
        max_functions: Largest number of functions in an observation with `observation="graph"` (≥ 2): the nearest to
            the call. Default: 64.
        arguments: Arguments of every environment (`EnvironmentOptions`).
    """

    def __init__(
        self,
        *,
        callee_features: bool = False,
        link_facts: str | os.PathLike[str] | None = None,
        credit: bool = False,
        ir: bool = False,
        max_functions: int | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(
            callee_features=callee_features,
            link_facts=link_facts,
            credit=credit,
            ir=ir,
            max_functions=max_functions,
            **arguments,
        )


class InlineEnv(InliningEnv):
    """Decide, call by call, whether clang inlines.

    LLVM's inliner visits the call graph bottom-up. It requests a decision for each direct call that may legally be
    inlined and that no attribute decides (`always_inline`, `noinline`, recursion). One episode is one compile of one
    module.

    ## Observation space

    A `Box` of shape `(N,)`, float32, whose elements are named by `feature_names`. Flags are 0 or 1; the bounds of all
    others are infinite. N is 36 on clang 17 and 18, and 39 from clang 19 on. The features are those of
    llvm/Analysis/InlineModelFeatureMaps.h, `callee_basic_block_count` to `threshold` and the like. The last one,
    `inlining_default`, is the choice of clang's own heuristic. All are counts, costs in LLVM's inline-cost units (5 per
    instruction), or flags. Before llvm/llvm-project#141453 (clang 21) clang overwrote `callee_basic_block_count` with
    its own choice; the environment corrects `inlining_default` there, and the count is 0. With `callee_features=True`
    the callee features follow.

    With `observation="graph"` it is a `Graph` of at most `max_functions` nodes: the caller, the callee, and the nearest
    functions over calls. Nodes have the columns `mlgo_gym.compiler.decision_code.NODE_COLUMNS`. Edges have
    `EDGE_COLUMNS`, then the features above: those of the call on the first edge, which is that of the decision, and
    zeros elsewhere.

    ## Action space

    `Discrete(2)`: 0 keeps the call, 1 inlines it. Both are always legal; a number outside the space raises.

    ## Rewards

    0 until the end. The last reward compares the size of the object with a plain compile by the same clang with the
    same flags, as `reward` and `metric` define. Default: `1 - text / baseline_text`; 0.02 means 2 % smaller. With
    `metric="instructions"` it compares the instructions that the programs of the module execute.

    ## Start and end

    An episode starts at the first decision of a module, sampled uniformly from those of the corpus that have one, or
    named by `reset(options={"module": name})`. It is `terminated` when clang has written the object file, or when the
    compile failed, with `info["error"]` and the reward `error_reward`: by default that of a cost 10 times above plain
    clang's. No other episode gets less, so a failure never pays. It is `truncated` when the compile exceeded a limit of
    time; the last observation is then that of the last decision, and else zeros. The inliner requests no more decisions
    when its estimate of the module's size has doubled (`-ml-advisor-size-increase-threshold`). Compiles for WebAssembly
    have a limit of 16 times by default.

    `default_action`, clang's own choice, is exact.

    ```python
    import gymnasium as gym
    import mlgo_gym
    env = gym.make("mlgo/Inline-v0", corpus="zstd", metric="text", reward="relative")
    ```
    """

    task_type = InlineTask


class InlineVectorEnv(CompilerVectorEnv):
    """`InlineEnv` many times over: see `CompilerVectorEnv`."""

    env_type = InlineEnv
