"""Fixtures: networks of every kind, and observations."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mlgo_gym.policies.network import Network, Normalization
from tests.policies.episodes import balanced, random_network

Observations = npt.NDArray[np.int64]

# Names of clang 22, in the header of an inlining channel.
NAMES = (
    "sroa_savings", "call_penalty", "unsimplified_common_instructions", "dead_blocks", "callsite_cost",
    "last_call_to_static_bonus", "threshold", "callee_basic_block_count", "callsite_height", "node_count",
    "cost_estimate", "callee_users", "inlining_default",
)  # fmt: skip


KINDS = [("relu", True, 1), ("tanh", True, 2), ("relu", False, 1)]
"""Activation, whether the network normalizes, and number of outputs."""

LABELS = Path(__file__).parents[2] / "mlgo_gym" / "training" / "bundled_labels"


@pytest.fixture(scope="session")
def observations() -> Observations:
    """10,000 observations: numbers of every size and both signs, many of them 0."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(0, 20, (10_000, len(NAMES)))
    values = generator.integers(-(2**20), 2**20, sizes.shape) >> sizes
    values[:, -1] &= 1
    return values.astype(np.int64)


def labelled(level: str, features: tuple[str, ...], count: int = 10_000) -> Observations:
    """Return real decisions, spread over the bundled labels."""
    table = pytest.importorskip("pyarrow.parquet").read_table(LABELS / f"{level}.parquet")
    rows = np.stack([table[name].to_numpy() for name in features], axis=1)
    return np.ascontiguousarray(rows[np.linspace(0, len(rows) - 1, count).astype(int)])


def make_network(
    observations: Observations, *, activation: str = "relu", normalizes: bool = True, outputs: int = 1
) -> Network:
    """Return a network with random weights that chooses 0 and 1 about equally often."""
    rows = observations.astype(np.float32)
    normalization = Normalization.fit(rows, NAMES) if normalizes else None
    return balanced(random_network(NAMES, 12, 7, outputs, activation=activation, normalization=normalization), rows)


@pytest.fixture(scope="session")
def network_file(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a network with one output."""
    path = tmp_path_factory.mktemp("network") / "network.safetensors"
    make_network(observations).save(path)
    return path
