"""Compares the return of policies in `mlgo/InlineBandit-v0` with the code that they compile to.

    python -m benchmarks.bandit_return [--seconds 20] [--work FOLDER]

The policies are rules, bundled networks and checkpoints of PPO that learned from the labels of the part `fit`. Their
returns are means over the labels of the part `valid`; then clang compiles the modules of these labels with each policy.
The same command resumes an interrupted run. docs/results/bandit_return.json has returns and changes of all policies and
modules, and rank correlations (Spearman).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from benchmarks.learning import CORPUS, ROOT
from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym import evaluate, open_corpus
from mlgo_gym.corpus.training_digests import training_digest
from mlgo_gym.policies.bundled import bundled_file
from mlgo_gym.policies.network import Network
from mlgo_gym.training.bandit import InlineBanditVectorEnv
from mlgo_gym.training.labels import Labels
from mlgo_gym.training.margin import Base

RESULTS = ROOT / "docs" / "results" / "bandit_return.json"
RULES = ("default", "never", "always", *(f"threshold:{limit}" for limit in (0, 5, 20, 50)))
BYTES = 60_000
"""Largest bitcode of a compiled module; larger ones would take most of the time."""

_DIGITS = 16
"""Digits of a digest in labels."""

CHECKPOINTS = (0.02, 0.1, 0.3, 1.0)
"""Shares of the training at which the policy is kept."""


def checkpoints(level: str, seconds: float, folder: Path) -> dict[str, str]:
    """Train PPO on the labels of the part `fit`, and return its checkpoints as policies by name."""
    sys.path.insert(0, str(ROOT / "examples"))
    from bandit import make_agent, preference

    from mlgo_gym.integrations.pytorch import read_sequential

    folder.mkdir(parents=True, exist_ok=True)
    files = {f"PPO, {share * seconds:g} s": folder / f"{level}-{share}.safetensors" for share in CHECKPOINTS}
    if not all(file.exists() for file in files.values()):
        agent, normalization = make_agent("PPO", level, 0, split="fit")
        start = time.process_time()
        for share, file in zip(CHECKPOINTS, files.values(), strict=True):
            end = start + share * seconds
            agent.learn(10**9, callback=lambda *_, end=end: time.process_time() < end, reset_num_timesteps=False)
            read_sequential(preference(agent), normalization).save(file)
    return {name: f"mlp:{file}" for name, file in files.items()}


def actions(policy: str, labels: Labels) -> npt.NDArray[np.int64]:
    """Return what a policy chooses for each label, int64 of shape (labels,)."""
    if policy in ("never", "always"):
        return np.full(len(labels), int(policy == "always"))
    if policy == "default" or policy.startswith("threshold:"):
        return Base.parse(policy).answers(labels.features, labels.observations)
    network = Network.load(policy[4:] if policy.startswith("mlp:") else bundled_file(policy))
    inputs = labels.select_features(network.features).observations.astype(np.float32)
    return (network(inputs)[:, -1] > 0).astype(np.int64)


def compare(level: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Return the returns of all policies of a level, their compiled changes, and the correlations."""
    labels = InlineBanditVectorEnv(labels=level, callee_features=True, split="valid").labels
    corpus = open_corpus(CORPUS.replace("Os", level))
    digests = {module.name: training_digest(module)[:_DIGITS] for module in corpus.split("valid")}
    labelled = set(labels.digests.tolist())
    corpus = corpus.filter(names=[name for name, digest in digests.items() if digest in labelled], bytes=(0, BYTES))
    bundled = {name: name for name in (f"inline-{level.lower()}-fast", f"inline-{level.lower()}")}
    policies = {name: name for name in RULES} | bundled | checkpoints(level, seconds, folder)
    result = evaluate("mlgo/Inline-v0", policies=policies, corpus=corpus, output=folder / level)
    keeps = np.sign(labels.bytes) * labels.weights  # what keeping the call saves, and inlining it loses
    changes = labels.bytes * labels.share / labels.text
    clang = actions("default", labels)
    rows: list[dict[str, Any]] = []
    pairs: list[list[float]] = []
    for name, policy in policies.items():
        chosen = actions(policy, labels)
        (summary,) = (each for each in result.summaries() if each.policy == name)
        modules: list[tuple[str, float, float]] = []
        for module, (value, baseline) in zip(summary.names, summary.changes["text"].pairs, strict=True):
            own = labels.digests == digests[module]
            predicted = float(((chosen - clang) * changes)[own].sum())
            modules.append((module, round(predicted, 5), round(value / baseline - 1, 5)))
        value = float(((1 - 2 * chosen) * keeps).mean())
        rows.append({"policy": name, "return": value, "change": result.change(name), "modules": modules})
        pairs += [[predicted, change] for _, predicted, change in modules if name != "default"]
    over_policies = spearmanr([row["return"] for row in rows], [-row["change"] for row in rows])
    return {
        "level": level,
        "labels": len(labels),
        "modules": len(rows[0]["modules"]),
        "policies": rows,
        "pairs": len(pairs),
        "correlation_of_policies": round(float(over_policies.statistic), 3),
        "correlation_of_pairs": round(float(spearmanr(pairs).statistic), 3),
    }


def main() -> None:
    """Compare both levels."""
    parser = command_line(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU time of the training at each level")
    parser.add_argument("--json", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--work", type=Path, default=Path("runs/bandit_return"), help="folder of the checkpoints")
    options = parser.parse_args()
    found = [compare(level, options.seconds, options.work) for level in ("Os", "Oz")]
    write_json(options.json, {"levels": found})
    table = Table({"level": "<5", "policy": "<24", "return": ">+8.4f", "compiled": ">+9.2%"})
    for level in found:
        for row in sorted(level["policies"], key=lambda row: -row["return"]):
            table.row(level["level"], row["policy"], row["return"], row["change"])
        print(
            f"rank correlation: {level['correlation_of_policies']} over policies, {level['correlation_of_pairs']} "
            f"over {level['pairs']} policies and modules"
        )


if __name__ == "__main__":
    main()
