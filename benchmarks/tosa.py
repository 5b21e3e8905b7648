"""Decisions of `mlgo-gym export tosa` in other programs, compared with the policy's on recorded observations.

    pip install '.[cli,corpus,tosa]' pyarrow iree-base-compiler iree-base-runtime tosa-tools torch-mlir
    python -m benchmarks.tosa --policy inline-oz-fast --policy inline-os-fast --policy evict --count 10000

| runner | programs |
|---|---|
| `emitc` | the passes of llvm/cmake/modules/MLGOLower.cmake in torch-mlir, mlir-translate-22, clang |
| `iree` | IREE's compiler and run time |
| `reference` | the reference model of TOSA, a process per decision: the first 100 observations only |

Observations of inlining are spread over the bundled labels; those of evictions come from the packaged corpus.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Table, command_line
from mlgo_clang.compiler import compiler_command
from mlgo_gym.deploy.exports import default_rule, exported_network
from mlgo_gym.deploy.tosa_export import tosa_model
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.policies.eviction import COLUMN_FEATURES, EvictionPolicy, decides_evictions
from mlgo_gym.tasks.infos import decision_info
from tests.deploy.conftest import labelled

Tensors = list[np.ndarray[Any, Any]]
Run = Callable[[Tensors], int]

PASSES = (
    "func.func(tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,tosa-to-tensor)", "symbol-privatize",
    "scalarize-single-element-tensor-return",
    (
        "one-shot-bufferize{bufferize-function-boundaries=true "
        "function-boundary-type-conversion=identity-layout-map buffer-alignment=0}"
    ),
    "buffer-results-to-out-params{hoist-static-allocs=true}", "func.func(promote-buffers-to-stack)",
    "buffer-deallocation-pipeline", "func.func(convert-linalg-to-loops)", "expand-strided-metadata", "canonicalize",
    "memref-elide-reinterpret-cast", "convert-to-emitc", "wrap-emitc-func-in-class{class-name-format=Model1}",
    "mlgo-add-reflection-map{included-field-attrs=tf_saved_model.index_path}", "math-expand-ops{ops=rsqrt}",
    "arith-expand", "convert-math-to-emitc", "convert-arith-to-emitc",
)  # fmt: skip
"""The passes of llvm/cmake/modules/MLGOLower.cmake."""

_LOOKUP = re.compile(r"    (?:emitc\.)?func @getBufferForName.*?\n    }\n", re.DOTALL)
"""A method that LLVM's model runner does not call; Debian's mlir-translate 22 cannot read it."""

_PROPERTIES = re.compile(r'(call_opaque "\w+"\(\)) <(\{.*\})> :')


def inlining_observations(policy: str, count: int) -> tuple[list[str], list[Tensors], list[int]]:
    """Return the inputs of a model, recorded observations, and the decisions of the policy."""
    network = exported_network(policy)
    rows = labelled(policy.split("-")[1].capitalize(), network.features, count)
    names = list(network.features)
    if (rule := default_rule(policy, network.features)) is not None:
        rows[:, names.index(rule.feature)] = rows[:, names.index(rule.cost)] < rule.threshold
    decisions = (network(rows.astype(np.float32))[:, 0] > 0).astype(int).tolist()
    kept = [index for index, name in enumerate(names) if rule is None or name != rule.feature]
    return [names[index] for index in kept], [[row[[index]] for index in kept] for row in rows], decisions


def eviction_observations(policy: str, count: int) -> tuple[list[str], list[Tensors], list[int]]:
    """Return the same for a policy of evictions, under its own decisions."""
    env = RegAllocEvictEnv(corpus="builtin")
    agent = EvictionPolicy(env, exported_network(policy, evictions=True))
    names = [*COLUMN_FEATURES, "mask", "progress"]
    rows: list[Tensors] = []
    decisions: list[int] = []
    specs = {spec.name: spec for spec in env.task.headers[0].features}
    for name in env.corpus.names:
        with env.compilation(env.corpus.module(name)).session(env.task.advisors) as session:
            while len(rows) < count and (decision := session.wait(60)) is not None:
                tensors, payload = {}, bytes(decision.payload)
                for key, spec in specs.items():
                    tensors[key] = np.frombuffer(payload[: spec.nbytes], spec.dtype).reshape(spec.shape)
                    payload = payload[spec.nbytes :]
                rows.append([tensors[key] for key in names])
                action = agent.act(env.task.observe(decision), decision_info(env.task, decision, name, 0))
                decisions.append(int(action))
                session.advise(env.task.encode(decision, int(action)) or b"")
            if len(rows) == count:
                break
            session.finish(60)
    return names, rows, decisions


def emitc(model: Path, names: Sequence[str], folder: Path) -> Run:
    """Return the C++ that LLVM's build makes of a model, as a function."""
    import torch_mlir._mlir_libs._mlirRegisterEverything  # noqa: F401 - registers the passes
    from torch_mlir.ir import Context, Module
    from torch_mlir.passmanager import PassManager

    with Context():
        module = Module.parse(model.read_bytes())
        PassManager.parse(f"builtin.module({','.join(PASSES)})").run(module.operation)
        lowered = _PROPERTIES.sub(r"\1 \2 :", _LOOKUP.sub("", str(module)))
    (folder / "emitc.mlir").write_text(lowered)
    command = ["mlir-translate-22", "-mlir-to-cpp", str(folder / "emitc.mlir"), "-o", str(folder / "Model1.h")]
    subprocess.run(command, check=True)
    source = folder / "main.cpp"
    source.write_text("""#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "Model1.h"
static Model1 model;
extern "C" int64_t decide(const char *data, const char **names, const int *sizes, int count) {
  for (int i = 0; i < count; data += sizes[i++]) memcpy(model.reflectionMap.at(names[i]), data, sizes[i]);
  return model();
}""")
    clang = compiler_command("bundled", "g++")
    library = folder / "main.so"
    subprocess.run([*clang, "-O2", "-fPIC", "-c", str(source), "-o", str(folder / "main.o")], check=True)
    subprocess.run([clang[0], "c++", "-shared", str(folder / "main.o"), "-o", str(library)], check=True)
    decide = ctypes.CDLL(str(library)).decide
    decide.restype = ctypes.c_int64
    keys = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))

    def run(tensors: Tensors) -> int:
        sizes = (ctypes.c_int * len(tensors))(*(tensor.nbytes for tensor in tensors))
        return int(decide(b"".join(tensor.tobytes() for tensor in tensors), keys, sizes, len(tensors)))

    return run


def iree(model: Path, names: Sequence[str], folder: Path) -> Run:  # noqa: ARG001 - as the other runners
    """Return a model in IREE's run time."""
    from iree import compiler, runtime

    options = ["--iree-llvmcpu-target-cpu=generic"]
    data = compiler.compile_file(str(model), target_backends=["llvm-cpu"], input_type="tosa", extra_args=options)
    module = runtime.load_vm_flatbuffer(data, driver="local-sync")
    return lambda tensors: int(np.asarray(module.main(*tensors)).item())


def reference(model: Path, names: Sequence[str], folder: Path) -> Run:
    """Return a model in the reference model of TOSA."""
    graph = folder / "model.tosa"
    serialize = ["--tosa-serialize", f"--tosa-flatbuffer-filename={graph}", "-o", "/dev/null"]
    subprocess.run(["tosa-opt", str(model), *serialize], check=True)
    inputs = [f"input-{index}" for index in range(len(names))]
    output = folder / "output-0.npy"
    test: dict[str, Any] = {"tosa_file": graph.name, "ifm_name": [], "ifm_file": [f"{name}.npy" for name in inputs]}
    text = subprocess.run(["strings", "-n", "4", str(graph)], check=True, capture_output=True, text=True).stdout
    test["ifm_name"] = sorted(set(re.findall(r"TosaInput_\d+", text)), key=lambda name: int(name.split("_")[1]))
    test |= {"ofm_name": ["TosaOutput_0"], "ofm_file": [output.name], "expected_failure": False}
    (folder / "desc.json").write_text(json.dumps(test))

    def run(tensors: Tensors) -> int:
        for name, tensor in zip(inputs, tensors, strict=True):
            np.save(folder / f"{name}.npy", tensor)
        command = ["tosa_reference_model", f"--test_desc={folder / 'desc.json'}", "--tosa_level=NONE"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        return int(np.load(output).item())

    return run


RUNNERS: dict[str, tuple[Callable[[Path, Sequence[str], Path], Run], int]] = {
    "emitc": (emitc, 1 << 30),
    "iree": (iree, 1 << 30),
    "reference": (reference, 100),
}


def main() -> None:
    """Compare the decisions of policies in all runners."""
    parser = command_line(__doc__)
    parser.add_argument("--policy", action="append", required=True)
    parser.add_argument("--runner", action="append", choices=RUNNERS)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    table = Table(
        {"policy": "<16", "runner": "<10", "observations": ">12,d", "inline or evict": ">15.1%", "other": ">6d"}
    )
    for policy in options.policy:
        network = exported_network(policy, evictions=True)
        recorded = eviction_observations if decides_evictions(network) else inlining_observations
        names, rows, expected = recorded(policy, options.count)
        none = 32 if decides_evictions(network) else 0
        for name in options.runner or RUNNERS:
            make, limit = RUNNERS[name]
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder) / "model.mlir"
                model.write_bytes(tosa_model(policy, network, default_rule(policy, network.features)))
                run = make(model, names, Path(folder))
                decisions = [run(row) for row in rows[:limit]]
            others = sum(a != b for a, b in zip(decisions, expected[:limit], strict=True))
            table.row(policy, name, len(decisions), np.mean([decision != none for decision in decisions]), others)


if __name__ == "__main__":
    main()
