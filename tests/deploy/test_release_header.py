"""The header for LLVM's release mode decides as the network does in LLVM's own model runner."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.deploy.decision_code import DecisionCode, decision_code, exported_network, network_decision_code
from mlgo_gym.deploy.inlining_default import default_rule
from mlgo_gym.deploy.plugin import installed_llvm
from mlgo_gym.deploy.release_header import eviction_header, release_header
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.eviction import EvictionPolicy
from tests.deploy.conftest import labelled
from tests.deploy.test_eviction_code import decisions
from tests.policies.episodes import eviction_network

PROGRAM = """
#include "header.h"
#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/IR/LLVMContext.h"
#include <cstdio>
#include <vector>
int main() {
  llvm::LLVMContext Context;
  std::vector<llvm::TensorSpec> Specs;
SPECS
  llvm::ReleaseModeModelRunner<llvm::MODEL> Runner(Context, Specs, "DECISION");
  for (;;) {
    for (size_t I = 0; I < Specs.size() - UNKNOWN; ++I)
      if (!std::fread(Runner.getTensor<char>(I), Specs[I].getTotalTensorBufferSize(), 1, stdin))
        return 0;
    int64_t Decision = Runner.evaluate<int64_t>();
    std::fwrite(&Decision, sizeof Decision, 1, stdout);
  }
}
"""
"""Reads the tensors of decisions, and writes the decisions of LLVM's model runner as int64."""


def decide(program: Path, data: bytes) -> list[int]:
    decisions = subprocess.run([program], input=data, capture_output=True, check=True).stdout
    return [int(decision) for decision in np.frombuffer(decisions, np.int64)]


def inlining_runner(major: int, header: str, names: tuple[str, ...], folder: Path) -> Path:
    """Return a program for rows of the named features; LLVM has a feature that the header does not name, too."""
    specs = [f'Specs.push_back(llvm::TensorSpec::createSpec<int64_t>("{name}", {{1}}));' for name in names]
    unknown = 'Specs.push_back(llvm::TensorSpec::createSpec<int64_t>("unknown", {1}));'
    code = PROGRAM.replace("UNKNOWN", "1").replace("SPECS", "\n".join([*specs, unknown]))
    return build(major, header, code.replace("MODEL", "InlinerSizeModel"), "inlining_decision", folder)


def build(major: int, header: str, code: str, decision: str, folder: Path) -> Path:
    """Return the program of some C++ that includes the header."""
    for needed in (f"llvm-config-{major}", f"clang++-{major}"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    llvm = installed_llvm(f"llvm-config-{major}")
    (folder / "header.h").write_text(header)
    (folder / "main.cpp").write_text(code.replace("DECISION", decision))
    library = subprocess.check_output([f"llvm-config-{major}", "--libdir"], text=True).strip()
    flags = ["-std=c++17", "-O2", f"-I{llvm.includes}", f"-L{library}", f"-lLLVM-{major}"]
    # The compiler must not fuse a product and a sum.
    flags += ["-mfma"] if "fma" in Path("/proc/cpuinfo").read_text().split() else []
    program = folder / "program"
    command = [f"clang++-{major}", str(folder / "main.cpp"), *flags, f"-Wl,-rpath,{library}", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("major", "policy", "level"), [(22, "inline-oz-fast", "Oz"), (19, "inline-os-fast", "Os")])
def test_llvms_release_mode_decides_as_the_bundled_policies(
    major: int, policy: str, level: str, tmp_path: Path
) -> None:
    """The labelled decisions are real; the header replaces clang's own decision by the estimated cost."""
    network = exported_network(policy)
    rows = labelled(level, network.features)
    rule = default_rule(policy, network.features)
    names = tuple(name for name in network.features if rule is None or name != rule.feature)
    code = network_decision_code(policy, network)
    real = network(rows.astype(np.float32))[:, 0] > 0
    assert 0.05 < real.mean() < 0.95
    # An LLVM that computes clang's own decision uses it.
    program = inlining_runner(major, release_header(code), network.features, tmp_path)
    assert decide(program, rows.tobytes()) == real.tolist()
    program = inlining_runner(major, release_header(code), names, tmp_path)
    columns = [network.features.index(name) for name in names]
    found = decide(program, np.ascontiguousarray(rows[:, columns]).tobytes())
    supposed = rows.copy()
    if rule is not None:
        own, cost = (network.features.index(name) for name in (rule.feature, rule.cost))
        supposed[:, own] = rows[:, cost] < rule.threshold
    assert found == (network(supposed.astype(np.float32))[:, 0] > 0).tolist()
    # The replacement changes 20 of 49,199 decisions at -Oz, and 78 of 62,525 at -Os.
    assert np.not_equal(found, real).mean() < 0.005


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("major", [22, 19])
def test_llvms_release_mode_evicts_as_the_network_does(major: int, tmp_path: Path) -> None:
    env = RegAllocEvictEnv(corpus="builtin")
    network = eviction_network()
    specs = "\n".join(
        f'  Specs.push_back(llvm::TensorSpec::createSpec<{spec.type}>("{spec.name}", {{{spec.size}}}));'
        for spec in env.task.headers[0].features
    )
    code = PROGRAM.replace("UNKNOWN", "0").replace("SPECS", specs)
    code = code.replace("MODEL", "RegAllocEvictModel")
    program = build(major, eviction_header("random", network), code, "index_to_evict", tmp_path)
    made = [
        (bytes(decision.payload), action, env.task.default_action(decision))
        for decision, action in decisions(env, EvictionPolicy(env, network))
    ]
    rows, chosen, defaults = zip(*made, strict=True)
    assert decide(program, b"".join(rows)) == list(chosen)
    assert np.not_equal(chosen, defaults).mean() > 0.1


def test_a_policy_of_clangs_own_decision_that_is_not_bundled_needs_a_level() -> None:
    with pytest.raises(PolicyError, match=r"with --level.*mlgo-gym train clone --expert default"):
        release_header(decision_code("default"))
    header = release_header(decision_code("default"), "Os")
    assert "Features[0] = Features[1] < 50;" in header
    assert '"feed_inlining_default", "feed_cost_estimate"' in header
    with pytest.raises(PolicyError, match="expected a level of Oz, Os, got 'O2'"):
        release_header(decision_code("default"), "O2")
    assert "inlining_default" not in release_header(decision_code("threshold:20"))


def test_the_name_of_a_file_stays_a_comment() -> None:
    policy = decision_code("never")
    named = DecisionCode('mlp:a"\n#include <evil>\n??/', policy.features, policy.code)
    first, second, *_ = release_header(named).splitlines()
    assert first.startswith("// A policy of inlining for LLVM's release mode: the policy mlp:a___include _evil____/,")
    assert "evil" not in second
