"""What proposes weights to try, and learns from what they gave: gradients along random directions, or CMA-ES."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.training.distillation import torch_library

Floats = npt.NDArray[np.float64]


class Optimiser(Protocol):
    """Asked for weights, and told what they gave, in turn; the same answers lead to the same weights."""

    @property
    def weights(self) -> Floats:
        """Where it is, float64 of shape (weights,)."""

    def ask(self, chance: np.random.Generator) -> list[Floats]:
        """Return weights to try; `chance` is of this generation alone."""

    def tell(self, scores: Floats) -> None:
        """Take what each of them gave; more is better."""


class AntitheticAdam:
    """Antithetic samples (Salimans et al. 2017), the best directions kept (Mania, Guy and Recht 2018), steps by Adam.

    Args:
        start: the weights to begin with.
        directions: so many random directions are tried, forth and back.
        best: so many of them count, by the better of their two sides.
        deviation: how far a sample is from the weights, in parts of the weights' own standard deviation.
        step: the size of Adam's step.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """

    def __init__(self, start: Floats, directions: int, best: int, deviation: float, step: float) -> None:
        self._torch = torch_library()
        self._weights = self._torch.tensor(start, dtype=self._torch.float64, requires_grad=True)
        self._adam = self._torch.optim.Adam([self._weights], step)
        self._directions, self._best, self._deviation = directions, best, deviation
        self._noise: Floats = np.empty(0)

    @property
    def weights(self) -> Floats:
        """Where it is."""
        current: Floats = self._weights.detach().numpy()
        return current

    def ask(self, chance: np.random.Generator) -> list[Floats]:
        """Return two samples for each direction."""
        current = self.weights
        radius = self._deviation * float(current.std())
        self._noise = chance.standard_normal((self._directions, len(current)))
        return [current + sign * radius * direction for direction in self._noise for sign in (1, -1)]

    def tell(self, scores: Floats) -> None:
        """Take a step along the best directions."""
        pairs = scores.reshape(-1, 2)
        kept = np.argsort(-pairs.max(axis=1), kind="stable")[: self._best]
        spread = float(pairs[kept].std()) or 1.0
        slope = (pairs[kept, 0] - pairs[kept, 1]) @ self._noise[kept] / (self._best * spread)
        self._adam.zero_grad()
        self._weights.grad = self._torch.from_numpy(-slope)
        self._adam.step()


class DiagonalCma:
    """CMA-ES with a diagonal covariance (Ros and Hansen 2008), of the library `cmaes`.

    A full covariance of ten thousand weights would be a hundred million numbers.

    Args:
        start: the weights to begin with.
        directions: half as many as samples of a generation.
        deviation: the first standard deviation of a sample, in parts of the weights' own.
        seed: the source of chance.

    Raises:
        MissingExtraError: cmaes is not installed.
    """

    def __init__(self, start: Floats, directions: int, deviation: float, seed: int) -> None:
        cmaes = library("cmaes", "CMA-ES", "training")
        sigma = deviation * float(start.std())
        self._cma: Any = cmaes.SepCMA(start.copy(), sigma, seed=seed, population_size=2 * directions)
        self._asked: list[Floats] = []

    @property
    def weights(self) -> Floats:
        """The mean of the distribution."""
        mean: Floats = self._cma.mean
        return mean

    def ask(self, chance: np.random.Generator) -> list[Floats]:  # noqa: ARG002 - the library has its own source
        """Return a population."""
        self._asked = [self._cma.ask() for _ in range(self._cma.population_size)]
        return list(self._asked)

    def tell(self, scores: Floats) -> None:
        """Move the distribution to the best of them."""
        self._cma.tell([(weights, -float(score)) for weights, score in zip(self._asked, scores, strict=True)])


OPTIMISERS = ("adam", "cma")
"""The names of the optimisers."""


def make_optimiser(
    name: str, start: Floats, *, directions: int, best: int, deviation: float, step: float, seed: int
) -> Optimiser:
    """Return an optimiser by its name; the arguments are those of its class.

    Raises:
        MissingExtraError: its library is not installed.
        MlgoError: there is none of that name.
    """
    if name == "adam":
        return AntitheticAdam(start, directions, best, deviation, step)
    if name == "cma":
        return DiagonalCma(start, directions, deviation, seed)
    raise MlgoError(f"the optimiser must be one of {', '.join(OPTIMISERS)}; found {name!r}")
