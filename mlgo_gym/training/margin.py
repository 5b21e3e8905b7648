"""The rule that a network deviates from only where it is sure, and networks with such a margin in their layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import feature_columns
from mlgo_gym.training.features import COST, DEFAULT, Matrix


@dataclass(frozen=True, slots=True)
class Base:
    """What a network deviates from only where it is sure.

    Attributes:
        threshold: inline what is estimated to cost less than this; None: clang's own choice.
    """

    threshold: int | None = None

    @classmethod
    def parse(cls, text: str) -> Base:
        """Return the base that has a policy's name, `default` or `threshold:K` with a whole number.

        Raises:
            MlgoError: the name is another.
        """
        if text == "default":
            return cls()
        found = re.fullmatch(r"threshold(?::(-?\d+))?", text)
        if not found:
            raise MlgoError(f"a base is default or threshold:K, K a whole number as in threshold:5; found {text!r}")
        return cls(int(found[1] or 0))

    @property
    def name(self) -> str:
        """The policy that decides so."""
        return "default" if self.threshold is None else f"threshold:{self.threshold}"

    @property
    def feature(self) -> str:
        """The feature that tells what it does."""
        return DEFAULT if self.threshold is None else COST

    def answers(self, names: Sequence[str], observations: Matrix) -> npt.NDArray[np.int64]:
        """Return what it does, 0 or 1, of shape (decisions,).

        Args:
            names: the features, in the order of the columns.
            observations: shape (decisions, features).
        """
        values = observations[:, feature_columns("the base", [self.feature], names)[0]]
        yes = values == 1 if self.threshold is None else values < self.threshold
        return np.asarray(yes, np.int64)

    @property
    def ramp(self) -> tuple[float, float]:
        """A value of the feature at which the answer is no, and the nearest at which it is yes."""
        return (0.0, 1.0) if self.threshold is None else (float(self.threshold), float(self.threshold - 1))


def with_margin(network: Network, margin: float, base: Base = Base()) -> Network:
    """Return the network that is with a base unless the given one is surer than a margin.

    The base's answer is carried through the layers by one more unit of each, or two: a ramp from no to yes, and
    what takes back the rest of it beyond yes. The output is that of the given network, plus the margin where the base
    inlines and minus the margin where it does not.

    Args:
        network: one output and ReLU between its layers; the base's feature is one of its own.
        margin: how far beyond 0 the output must be for a deviation; 0 returns an equal network.
        base: what it deviates from.

    Raises:
        MlgoError: the network is of another kind or, for a threshold, without a hidden layer; or the margin negative.
    """
    last = len(network.weights) - 1
    known = base.feature in network.features and (base.threshold is None or last > 0)
    if network.outputs != 1 or network.activation != "relu" or not known or not margin >= 0:
        raise MlgoError(
            f"a margin of 0 or more, and a network with ReLU, one output, a hidden layer and the feature "
            f"{base.feature} were wanted; found {margin:g}, {network.activation}, {network.outputs} outputs, "
            f"{last} hidden layers and {', '.join(network.features)}"
        )
    if margin == 0:
        return network
    place = network.features.index(base.feature)
    probe = np.zeros((2, len(network.features)), np.float32)
    probe[:, place] = base.ramp
    seen = probe if network.normalization is None else network.normalization(probe)
    no, yes = seen[:, place].astype(np.float64)
    # Clang's own choice is 0 or 1: there is nothing beyond yes.
    starts = (no,) if base.threshold is None else (no, yes)
    signs = (1.0, -1.0)[: len(starts)]
    weights, biases = [], []
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        inputs, outputs = weight.shape
        wide = np.zeros((inputs + len(starts) * (number > 0), outputs + len(starts) * (number < last)), np.float32)
        wide[:inputs, :outputs] = weight
        shifted = np.append(bias, np.zeros(len(starts), np.float32)) if number < last else bias.copy()
        for unit, (start, sign) in enumerate(zip(starts, signs, strict=True)):
            slope, shift = (1.0, 0.0) if number else (1 / (yes - no), -start / (yes - no))
            if number == last:
                slope, shift = slope * 2 * margin * sign, shift * 2 * margin * sign
            target = outputs + unit if number < last else 0
            wide[inputs + unit if number else place, target] += np.float32(slope)
            shifted[target] += np.float32(shift)
        if number == last:
            shifted[0] -= np.float32(margin)
        weights.append(wide)
        biases.append(shifted)
    return Network(network.features, tuple(weights), tuple(biases), "relu", network.normalization)
