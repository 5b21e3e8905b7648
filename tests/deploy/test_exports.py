"""Headers for LLVM's release mode, models of evictions, and the commands that export them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.counters import count
from mlgo_gym.deploy.decision_code import DecisionCode, decision_code, exported_network, network_decision_code
from mlgo_gym.deploy.inlining_default import default_rule
from mlgo_gym.deploy.plugin import installed_llvm
from mlgo_gym.deploy.release_header import eviction_header, release_header
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import CorpusError, MlgoError, PolicyError, ToolchainError
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.eviction import EvictionPolicy
from mlgo_gym.policies.session_policy import decision_info
from mlgo_gym.session.protocol.decision import Decision
from tests.cli.command import run
from tests.deploy.conftest import labelled
from tests.policies.episodes import eviction_network


def decisions(env: RegAllocEvictEnv, policy: Policy) -> Iterator[tuple[Decision, int]]:
    """Yield each decision of two compiles by a policy, and the policy's choice."""
    for module in ("c/bigint", "c/json"):
        with env.compilation(env.corpus.module(module)).session(env.task.advisors) as session:
            while (decision := session.wait(60)) is not None:
                chosen = choose(env, policy, decision)
                yield decision, chosen
                session.advise(env.task.encode(decision, chosen) or b"")
            session.finish(60)


def choose(env: RegAllocEvictEnv, policy: Policy, decision: Decision) -> int:
    """Return the policy's choice; a network for evictions does not use the number of the decision."""
    return int(policy.act(env.task.observe(decision), decision_info(env.task, decision, "module", 0)))


@pytest.mark.libraries
def test_the_model_for_development_mode_decides_as_the_network_does(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    env = RegAllocEvictEnv(corpus="builtin")
    path, folder = tmp_path / "evict.safetensors", tmp_path / "model"
    eviction_network().save(path)
    assert run("export", "tflite", "--policy", f"mlp:{path}", "--output", folder).exit_code == 0
    network, model = (load_policy(policy, env) for policy in (f"mlp:{path}", f"tflite:{folder}"))
    compared = deviations = 0
    for decision, chosen in decisions(env, network):
        assert choose(env, model, decision) == chosen
        deviations += chosen != env.task.default_action(decision)
        compared += 1
    assert compared > 30
    assert deviations > compared / 10


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
@pytest.mark.parametrize("major", [22, 19])
def test_llvms_release_mode_decides_as_a_bundled_policy(major: int, tmp_path: Path) -> None:
    """The labelled decisions are real; the header replaces clang's own decision by the estimated cost."""
    policy = "inline-os-fast"
    network = exported_network(policy)
    rows = labelled("Os", network.features)
    rule = default_rule(policy, network.features)
    assert rule is not None
    names = tuple(name for name in network.features if name != rule.feature)
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
    own, cost = (network.features.index(name) for name in (rule.feature, rule.cost))
    supposed[:, own] = rows[:, cost] < rule.threshold
    assert found == (network(supposed.astype(np.float32))[:, 0] > 0).tolist()
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


def test_the_counters_of_the_driver_are_shown_and_zeroed(own_cache: Path) -> None:
    nothing = "mlgo-clang has compiled nothing\n"
    assert run("cc-stats").stdout == nothing
    for names in (("left to clang",), ("compiled by clang alone", "because of rain"), ("left to clang",)):
        count(*names)
    expected = "       2  left to clang\n       1  compiled by clang alone\n       1  because of rain\n"
    assert run("cc-stats", "--zero").stdout == expected
    assert run("cc-stats").stdout == nothing


NEEDS_CALLEES = r"inline-oz needs callee features, .* or use inline-oz-fast$"


def test_an_export_that_is_impossible_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evict.safetensors"
    eviction_network().save(path)
    for words, error, message in (
        ("llvm-header --policy no-such-policy", PolicyError, "expected a bundled policy, got 'no-such-policy'"),
        ("llvm-header --policy threshold:many", PolicyError, "expected threshold:NUMBER, got 'threshold:many'"),
        ("plugin --policy never --llvm-config llvm-config-2", ToolchainError, "llvm-config-2"),
        ("plugin --policy never --llvm-config echo", ToolchainError, "an llvm-config, got echo with the version"),
        ("llvm-header --level Oz --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("onnx --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("tflite --level Oz --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("onnx --policy threshold:3", PolicyError, "expected a network, got the rule 'threshold:3'"),
        ("tflite --policy threshold:3", PolicyError, "expected a network, got the rule 'threshold:3'"),
        (f"onnx --policy mlp:{path}", MlgoError, "expected a policy of inlining"),
        (f"tflite --level Os --policy mlp:{path}", MlgoError, "expected --level for a policy of inlining, .* omit"),
        (f"tflite --keep-default --policy mlp:{path}", MlgoError, "expected --keep-default for a policy .* omit"),
    ):
        with pytest.raises(error, match=message):
            run("export", *words.split(), "--output", tmp_path / "output")
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_names_its_policy_and_one_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "header.h"
    result = run("export", "llvm-header", "--policy", "threshold:20", "--output", output)
    assert (result.exit_code, result.stdout.startswith(f"{output}: threshold:20, ")) == (0, True)
    assert "(double)features[0] < 20.0" in output.read_text()
    for name in ("", "header.h/model"):
        with pytest.raises(MlgoError, match=r"the export to .* failed"):
            run("export", "llvm-header", "--policy", "never", "--output", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["header.h"]
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_a_folder_of_recipes_may_be_empty_but_must_exist(tmp_path: Path) -> None:
    assert run("recipes", "prune", tmp_path).stdout == "0 recipes removed\n"
    assert run("recipes", "verify", tmp_path).stdout == "0 recipes verified, 0 failed\n"
    (tmp_path / "odd.recipe").write_text("{}")
    verified = run("recipes", "verify", tmp_path)
    assert (verified.exit_code, verified.stdout) == (1, "odd: damaged\n0 recipes verified, 1 failed\n")
    assert "odd              damaged" in run("recipes", "list", tmp_path).stdout
    with pytest.raises(CorpusError, match="expected a folder of recipes, got"):
        run("recipes", "list", tmp_path / "nowhere")
