"""Compares the decisions of exported bundled policies with those of the policies, on real observations.

    python -m benchmarks.exports --llvm-config llvm-config-22 --output docs/results/exports.json

Prints the number of equal decisions for each export: `onnx:`, `tflite:`, the TensorFlow Lite model for LLVM, and LLVM's
ReleaseModeModelRunner around the exported header. The last two derive clang's choice from the estimated cost. Half of
the observations are those of the labels in mlgo_gym/training/bundled_labels; the others are recorded in new compiles.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.deploy.decision_code import exported_network, network_decision_code
from mlgo_gym.deploy.inlining_default import default_rule
from mlgo_gym.deploy.onnx_model import onnx_model
from mlgo_gym.deploy.plugin import installed_llvm
from mlgo_gym.deploy.release_header import release_header
from mlgo_gym.deploy.tflite_model import tflite_model, write_tflite_folder
from mlgo_gym.env import CompilerEnv
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.observation_samples import record_observations

LABELS = Path(__file__).parents[1] / "mlgo_gym" / "training" / "bundled_labels"
POLICIES = {"inline-oz-fast": "Oz", "inline-os-fast": "Os"}
RUNNER = Path(__file__).with_name("sources") / "model_runner.cpp"

Rows = npt.NDArray[np.float32]
Decisions = npt.NDArray[np.int64]


def observations(env: CompilerEnv, level: str, count: int, corpus: str) -> Rows:
    """Return observations of real decisions; half of them are labelled ones."""
    table = importlib.import_module("pyarrow.parquet").read_table(LABELS / f"{level}.parquet")
    labelled = np.stack([table[name].to_numpy() for name in env.feature_names], axis=1).astype(np.float32)
    chosen = np.random.default_rng(0).permutation(len(labelled))[: count - count // 2]
    fresh = make_environment("mlgo/Inline-v0", {"corpus": f"{corpus}@{level}"})
    recorded = record_observations(fresh, observations=count // 2, per_episode=500)
    return np.concatenate([labelled[chosen], recorded])


def in_release_mode(header: str, llvm_config: str, names: tuple[str, ...], rows: Rows, folder: Path) -> Decisions:
    """Return the decisions of LLVM's model runner with a header, given all features that this LLVM computes."""
    llvm = installed_llvm(llvm_config)
    library = subprocess.check_output([llvm_config, "--libdir"], text=True).strip()
    (folder / "header.h").write_text(header)
    command = [f"clang++-{llvm.major}", str(RUNNER), "-std=c++17", "-O2", "-I.", f"-I{llvm.includes}"]
    command += [f"-L{library}", f"-lLLVM-{llvm.major}", f"-Wl,-rpath,{library}", "-o", "runner"]
    subprocess.run(command, cwd=folder, check=True)
    features = subprocess.check_output([folder / "runner", "names"], text=True).split()
    table = np.zeros((len(rows), len(features)), np.int64)
    for column, name in enumerate(features):
        if name in names:
            table[:, column] = rows[:, names.index(name)]
    answers = subprocess.run([folder / "runner"], input=table.tobytes(), capture_output=True, check=True).stdout
    return np.frombuffer(answers, np.uint8).astype(np.int64) - ord("0")


def compare(policy: str, level: str, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Count for each export the decisions equal to the policy's, with clang's own choice and with a derived one."""
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
    rows = observations(env, level, options.observations, options.corpus)
    network = exported_network(policy)
    rule = default_rule(policy, network.features)
    derived = rows.copy()
    if rule is not None:
        default, cost = (env.feature_names.index(name) for name in (rule.feature, rule.cost))
        derived[:, default] = rows[:, cost] < rule.threshold
    (folder / "model.onnx").write_bytes(onnx_model(policy, network))
    write_tflite_folder(folder / "tflite", tflite_model(policy, network))
    write_tflite_folder(folder / "tflite-llvm", tflite_model(policy, network, rule))

    def decide(name: str, observed: Rows) -> Decisions:
        loaded = load_policy(name, env)
        return np.array([int(loaded.act(row, {})) for row in observed])

    header = release_header(network_decision_code(policy, network))
    expected = [decide(policy, observed) for observed in (rows, derived)]
    exports = {
        f"onnx:{policy}.onnx": decide(f"onnx:{folder}/model.onnx", rows),
        f"tflite:{policy} --keep-default": decide(f"tflite:{folder}/tflite", rows),
        f"tflite:{policy}": decide(f"tflite:{folder}/tflite-llvm", rows),
        "ReleaseModeModelRunner": in_release_mode(header, options.llvm_config, env.feature_names, rows, folder),
    }
    env.close()
    return [
        {
            "policy": policy,
            "export": name,
            "decisions": len(rows),
            "yes": int(decisions.sum()),
            "as_the_policy": int((decisions == expected[0]).sum()),
            "as_the_policy_with_the_derived_choice": int((decisions == expected[1]).sum()),
        }
        for name, decisions in exports.items()
    ]


def main() -> None:
    """Compare, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--observations", type=int, default=10_000, help="number of decisions (default: 10000)")
    parser.add_argument("--corpus", default="zstd", help="dataset of the new compiles (default: zstd)")
    parser.add_argument("--llvm-config", default="llvm-config-22", help="the llvm-config of an installed LLVM")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    results = []
    columns = {"policy": "<16", "export": "<36", "decisions": ">9", "inlined": ">9", "equal": ">9"}
    table = Table({**columns, "equal with the derived choice": ">29"})
    for policy, level in POLICIES.items():
        with tempfile.TemporaryDirectory() as folder:
            for row in compare(policy, level, options, Path(folder)):
                table.row(*row.values())
                results.append(row)
    write_json(options.output, results)


if __name__ == "__main__":
    main()
