"""The exports of the policies in the box, read back, against the policies themselves: on real decisions.

Half of the decisions are of the labels in docs/results/labels, the rest is recorded in fresh compiles. Each is put to
the policy in the environment and to `onnx:` and `tflite:`; and to the TensorFlow Lite model that LLVM takes, and
to LLVM's ReleaseModeModelRunner around the exported header, where clang's own choice is taken from the estimated cost.

    python benchmarks/exports.py --llvm-config llvm-config-22 --output docs/results/exports.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.deploy.clangs_choice import clangs_choice
from mlgo_gym.deploy.decision_code import network_decision_code
from mlgo_gym.deploy.exported_policy import exported_network
from mlgo_gym.deploy.onnx_model import onnx_model
from mlgo_gym.deploy.plugin import installed_llvm
from mlgo_gym.deploy.release_header import release_header
from mlgo_gym.deploy.tflite_model import tflite_model, write_tflite_folder
from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.observation_samples import record_observations

LABELS = Path(__file__).parents[1] / "docs" / "results" / "labels"
POLICIES = {"inline-oz-plain": "Oz", "inline-os-plain": "Os"}
RUNNER = """
#include "header.h"
#include "llvm/Analysis/InlineModelFeatureMaps.h"
#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/IR/LLVMContext.h"
#include <cstdio>
#include <vector>
// The features of LLVM itself, in its order: what release mode computes.
#define NAME(DTYPE, SHAPE, NAME, DOC) #NAME,
static const char *const Names[] = {INLINE_COST_FEATURE_ITERATOR(NAME) INLINE_FEATURE_ITERATOR(NAME)};
int main(int Count, char **) {
  llvm::LLVMContext Context;
  std::vector<llvm::TensorSpec> Specs;
  for (const char *Name : Names)
    Specs.push_back(llvm::TensorSpec::createSpec<int64_t>(Name, {1}));
  if (Count > 1) {
    for (const char *Name : Names)
      std::puts(Name);
    return 0;
  }
  llvm::ReleaseModeModelRunner<llvm::InlinerSizeModel> Runner(Context, Specs, "inlining_decision");
  std::vector<int64_t> Row(Specs.size());
  while (std::fread(Row.data(), 8, Row.size(), stdin) == Row.size()) {
    for (size_t I = 0; I < Row.size(); ++I)
      *Runner.getTensor<int64_t>(I) = Row[I];
    std::putchar(Runner.evaluate<int64_t>() ? '1' : '0');
  }
}
"""

Rows = npt.NDArray[np.float32]
Decisions = npt.NDArray[np.int64]


def observations(env: CompilerEnv, level: str, count: int, corpus: str) -> Rows:
    """Return real decisions as the environment shows them, half of them labelled ones."""
    table = importlib.import_module("pyarrow.parquet").read_table(LABELS / f"{level}.parquet")
    labelled = np.stack([table[name].to_numpy() for name in env.feature_names], axis=1).astype(np.float32)
    chosen = np.random.default_rng(0).permutation(len(labelled))[: count - count // 2]
    fresh = make_environment("mlgo/Inline-v0", {"corpus": f"{corpus}@{level}"})
    recorded = record_observations(fresh, observations=count // 2, per_episode=500)
    return np.concatenate([labelled[chosen], recorded])


def in_release_mode(header: str, llvm_config: str, names: tuple[str, ...], rows: Rows, folder: Path) -> Decisions:
    """Return what LLVM's model runner decides with a header, for all features that this LLVM computes."""
    llvm = installed_llvm(llvm_config)
    library = subprocess.check_output([llvm_config, "--libdir"], text=True).strip()
    (folder / "header.h").write_text(header)
    (folder / "main.cpp").write_text(RUNNER)
    command = [f"clang++-{llvm.major}", "main.cpp", "-std=c++17", "-O2", f"-I{llvm.includes}"]
    command += [f"-L{library}", f"-lLLVM-{llvm.major}", f"-Wl,-rpath,{library}", "-o", "runner"]
    subprocess.run(command, cwd=folder, check=True)
    known = subprocess.check_output([folder / "runner", "names"], text=True).split()
    table = np.zeros((len(rows), len(known)), np.int64)
    for column, name in enumerate(known):
        if name in names:
            table[:, column] = rows[:, names.index(name)]
    said = subprocess.run([folder / "runner"], input=table.tobytes(), capture_output=True, check=True).stdout
    return np.frombuffer(said, np.uint8).astype(np.int64) - ord("0")


def compare(policy: str, level: str, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Return how often each export decides as the policy does, and as the policy with a supposed choice of clang."""
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
    rows = observations(env, level, options.observations, options.corpus)
    network = exported_network(policy)
    choice = clangs_choice(policy, network.features)
    supposed = rows.copy()
    if choice is not None:
        own, cost = (env.feature_names.index(name) for name in (choice.feature, choice.of))
        supposed[:, own] = rows[:, cost] < choice.below
    (folder / "model.onnx").write_bytes(onnx_model(policy, network))
    write_tflite_folder(folder / "tflite", tflite_model(policy, network))
    write_tflite_folder(folder / "tflite-llvm", tflite_model(policy, network, choice))

    def decide(spec: str, seen: Rows) -> Decisions:
        asked = load_policy(spec, env)
        return np.array([int(asked.act(row, {})) for row in seen])

    header = release_header(network_decision_code(policy, network))
    own_decisions = [decide(policy, seen) for seen in (rows, supposed)]
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
            "as_the_policy": int((decisions == own_decisions[0]).sum()),
            "as_the_policy_with_the_supposed_choice": int((decisions == own_decisions[1]).sum()),
        }
        for name, decisions in exports.items()
    ]


def main() -> None:
    """Compare the policies in the box with their exports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=10_000)
    parser.add_argument("--corpus", default="zstd", help="what is compiled for the decisions that are recorded")
    parser.add_argument("--llvm-config", default="llvm-config-22")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = []
    print(f"{'policy':10} {'export':36} {'decisions':>9} {'equal':>7} {'equal, with the choice supposed':>32}")
    for policy, level in POLICIES.items():
        with tempfile.TemporaryDirectory() as folder:
            for row in compare(policy, level, options, Path(folder)):
                print(
                    f"{row['policy']:10} {row['export']:36} {row['decisions']:9} {row['as_the_policy']:7} "
                    f"{row['as_the_policy_with_the_supposed_choice']:32}",
                    flush=True,
                )
                results.append(row)
    if options.output is not None:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
