"""A pipeline collects, fits, chooses and saves, in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlgo_gym.corpus import open_corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.training_digests import sidecar, sidecar_digests, training_digest
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.training import Labels, Monitor, Pipeline


def network(value: float) -> Network:
    """Return a network that is recognised by its bias."""
    return Network(("a",), (np.zeros((1, 1), np.float32),), (np.array([value], np.float32),))


def value_of(found: Network | None) -> float | None:
    return None if found is None else float(found.biases[0][0])


def labels(value: float, digests: Mapping[str, str] | None) -> Labels:
    """Return labels that are recognised by the name of their feature, with the digests and names of their modules."""
    known = {"": "unknown"} if digests is None else digests
    count = len(known)
    return Labels(
        (f"{value:g}",),
        np.zeros((count, 1)),
        np.zeros(count, np.int64),
        np.zeros((count, 2)),
        text=np.ones(count),
        share=np.ones(count),
        groups=np.arange(count),
        modules=np.array(list(known.values()), np.str_),
        digests=np.array(list(known), np.str_),
        defaults=np.zeros(count, np.int64),
        prices=np.ones(count),
    )


@dataclass
class Recorded:
    """A collector, a fit and a choice that record their calls."""

    digests: Sequence[Mapping[str, str] | None]
    validation: Sequence[Module] = ()
    calls: list[tuple[str, object]] = field(default_factory=list)

    def collect(self, number: int, network: Network | None, monitor: Monitor) -> Labels:
        self.calls.append(("collect", (number, value_of(network))))
        return labels(number + 1, self.digests[number])

    def fit(self, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        self.calls.append(("fit", [data.features[0] for data in rounds]))
        return network(sum(float(data.features[0]) for data in rounds))

    def choose(self, last: Network, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        self.calls.append(("choose", (value_of(last), len(rounds))))
        return network(-1)


def test_each_round_collects_around_the_last_network_and_fits_all_data() -> None:
    parts = Recorded([{}, {}, {}])
    last = Pipeline(parts, parts, rounds=3).run()
    assert value_of(last) == 6
    assert parts.calls == [
        ("collect", (0, None)),
        ("fit", ["1"]),
        ("collect", (1, 1.0)),
        ("fit", ["1", "2"]),
        ("collect", (2, 3.0)),
        ("fit", ["1", "2", "3"]),
    ]


def test_the_chosen_network_is_saved_with_the_digests_of_all_its_modules(
    calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    (module,) = open_corpus(calls, toolchain=toolchain)
    parts = Recorded([{"a" * 64: "one"}, {"b" * 64: "two"}], [module])
    output = tmp_path / "network.safetensors"
    Pipeline(parts, parts, parts, rounds=2).run(output)
    assert parts.calls[-1] == ("choose", (3.0, 2))
    assert value_of(Network.load(output)) == -1
    assert sidecar_digests(output) == {"a" * 64: "one", "b" * 64: "two", training_digest(module): module.name}


def test_no_digests_are_written_if_one_is_unknown(tmp_path: Path) -> None:
    parts = Recorded([{"a" * 64: "one"}, None])
    output = tmp_path / "network.safetensors"
    sidecar(output).write_text("of an earlier run\n")
    Pipeline(parts, parts, rounds=2).run(output)
    assert not sidecar(output).exists()
