"""The header for LLVM's release mode: LLVM's own model runner takes it, and decides as the network does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.deploy.decision_code import decision_code, network_decision_code
from mlgo_gym.deploy.plugin import installed_llvm
from mlgo_gym.deploy.release_header import release_header
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import Network
from tests.deploy.conftest import NAMES, Observations, make_network

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
  for (const char *Name : {NAMES, "unknown_feature"})
    Specs.push_back(llvm::TensorSpec::createSpec<int64_t>(Name, {1}));
  llvm::ReleaseModeModelRunner<llvm::InlinerSizeModel> Runner(Context, Specs, "inlining_decision");
  std::vector<int64_t> Row(Specs.size() - 1);
  while (std::fread(Row.data(), 8, Row.size(), stdin) == Row.size()) {
    for (size_t I = 0; I < Row.size(); ++I)
      *Runner.getTensor<int64_t>(I) = Row[I];
    std::putchar(Runner.evaluate<int64_t>() ? '1' : '0');
  }
}
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("major", [22, 19])
def test_llvms_release_mode_decides_as_the_network(major: int, observations: Observations, tmp_path: Path) -> None:
    for needed in (f"llvm-config-{major}", f"clang++-{major}"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    llvm = installed_llvm(f"llvm-config-{major}")
    names = NAMES[:-1]
    whole = make_network(observations)
    network = Network(names, (whole.weights[0][:-1], *whole.weights[1:]), whole.biases, "relu",
                      whole.normalization and whole.normalization.select(names))  # fmt: skip
    (tmp_path / "header.h").write_text(release_header(network_decision_code("a network", network)))
    quoted = ", ".join(f'"{name}"' for name in names)
    (tmp_path / "main.cpp").write_text(PROGRAM.replace("NAMES", quoted))
    library = subprocess.check_output([f"llvm-config-{major}", "--libdir"], text=True).strip()
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", f"-I{llvm.includes}", f"-L{library}", f"-lLLVM-{major}"]
    program = tmp_path / "program"
    command = [f"clang++-{major}", str(tmp_path / "main.cpp"), *flags, f"-Wl,-rpath,{library}", "-o", str(program)]
    subprocess.run(command, check=True)
    rows = np.ascontiguousarray(observations[:, :-1])
    answers = subprocess.run([str(program)], input=rows.tobytes(), capture_output=True, check=True).stdout
    expected = network(rows.astype(np.float32))[:, 0] > 0
    assert 0.05 < expected.mean() < 0.95
    assert [character == ord("1") for character in answers] == expected.tolist()


def test_clangs_own_decision_is_not_known_in_release_mode() -> None:
    with pytest.raises(PolicyError, match="does not compute"):
        release_header(decision_code("default"))
