"""Networks with a margin, which deviate from a base policy only where their output is beyond the margin."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.network import Network, feature_columns
from mlgo_gym.training.distillation import Matrix


@dataclass(frozen=True, slots=True)
class Base:
    """The policy that a network deviates from.

    Attributes:
        threshold: Calls with an estimated cost below this are inlined; None: clang's own choice.
    """

    threshold: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Base":
        """Return the base with the name of a policy, `default` or `threshold:K` with a whole number K."""
        if text == "default":
            return cls()
        found = re.fullmatch(r"threshold(?::(-?\d+))?", text)
        if not found:
            raise MlgoError(f"expected a base, default or threshold:K with a whole number K, got {text!r}")
        return cls(int(found[1] or 0))

    @property
    def name(self) -> str:
        """Name of the policy."""
        return "default" if self.threshold is None else f"threshold:{self.threshold}"

    @property
    def feature(self) -> str:
        """Feature that determines its answers."""
        return INLINING_DEFAULT if self.threshold is None else "cost_estimate"

    def answers(self, names: Sequence[str], observations: Matrix) -> npt.NDArray[np.int64]:
        """Return its answers, 0 or 1, int64 of shape (decisions,); `names` are those of the observations' columns."""
        values = observations[:, feature_columns("the base", [self.feature], names)[0]]
        inlined = values == 1 if self.threshold is None else values < self.threshold
        return np.asarray(inlined, np.int64)


def with_margin(network: Network, margin: float, base: str = "default") -> Network:
    """Return the network with the margin in its layers: plus the margin where the base inlines, minus it elsewhere.

    The answer of the base passes through one or two additional units of each layer: a ramp from 0 to 1, and a second
    ramp that cancels its continuation above 1.

    Args:
        network: A network with one output, ReLU between its layers, and the base's feature among its own.
        margin: Distance from 0 (≥ 0) that the output needs for a deviation; 0 returns an equal network.
        base: The policy that the network deviates from: `"default"` or `"threshold:K"`.

    Raises:
        MlgoError: the network is of another kind or, for a threshold, has no hidden layer; the margin is negative, or
            the base is unknown.
    """
    rule = Base.parse(base)
    last = len(network.weights) - 1
    fits = rule.feature in network.features and (rule.threshold is None or last > 0)
    if network.outputs != 1 or network.activation != "relu" or not fits or not margin >= 0:
        raise MlgoError(
            f"expected a margin ≥ 0 and a network with ReLU, one output, a hidden layer and {rule.feature}, got "
            f"{margin:g}, {network.activation}, {network.outputs} outputs, {last} hidden layers and "
            f"{', '.join(network.features)}"
        )
    if margin == 0:
        return network
    column = network.features.index(rule.feature)
    probe = np.zeros((2, len(network.features)), np.float32)
    # A value with the answer 0, and the nearest one with the answer 1.
    probe[:, column] = (0, 1) if rule.threshold is None else (rule.threshold, rule.threshold - 1)
    inputs = probe if network.normalization is None else network.normalization(probe)
    low, high = inputs[:, column].astype(np.float64)
    if low == high:
        raise MlgoError(
            f"expected a network whose normalization tells the answers of {base!r} apart, got one that clips "
            f"{rule.feature} there; use a margin of 0, or another base"
        )
    # Clang's own choice is 0 or 1, so its ramp does not continue above 1.
    starts = (low,) if rule.threshold is None else (low, high)
    signs = (1.0, -1.0)[: len(starts)]
    weights, biases = [], []
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        rows, columns = weight.shape
        extended = np.zeros((rows + len(starts) * (layer > 0), columns + len(starts) * (layer < last)), np.float32)
        extended[:rows, :columns] = weight
        shifted = np.append(bias, np.zeros(len(starts), np.float32)) if layer < last else bias.copy()
        for unit, (start, sign) in enumerate(zip(starts, signs, strict=True)):
            slope, shift = (1.0, 0.0) if layer else (1 / (high - low), -start / (high - low))
            if layer == last:
                slope, shift = slope * 2 * margin * sign, shift * 2 * margin * sign
            target = columns + unit if layer < last else 0
            extended[rows + unit if layer else column, target] += np.float32(slope)
            shifted[target] += np.float32(shift)
        if layer == last:
            shifted[0] -= np.float32(margin)
        weights.append(extended)
        biases.append(shifted)
    return Network(network.features, tuple(weights), tuple(biases), "relu", network.normalization)
