"""Headers for LLVM's release mode, and the commands that export them."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import count
from mlgo_gym.deploy.c_code import decision_code, network_decision_code, release_header
from mlgo_gym.deploy.exports import COST, default_threshold, exported_network
from mlgo_gym.deploy.tosa_export import tflite_model
from mlgo_gym.errors import CorpusError, MlgoError, PolicyError, ToolchainError
from mlgo_gym.policies.foreign_model import load_model
from tests.cli.command import run
from tests.deploy.conftest import KINDS, NAMES, Observations, labelled, make_network
from tests.policies.episodes import random_network


@pytest.mark.libraries
def test_a_model_of_tosa_names_features_as_llvms_model_runner(network_file: Path, tmp_path: Path) -> None:
    """The build of LLVM that lowers the file looks its inputs up by name."""
    pytest.importorskip("tosa_converter_for_tflite", reason="tosa-converter-for-tflite is not installed")
    level, spec = ["--level", "Oz"], f"mlp:{network_file}"
    model, network = tmp_path / "model.mlir", exported_network(spec)
    exported = run("export", "tosa", "--policy", spec, "--output", model, *level).stdout
    assert exported.startswith(f"{model}: {spec}, ")
    assert "inlining_default is replaced by cost_estimate < 5" in exported
    data = model.read_bytes()
    assert data.startswith(b"ML\xefR")
    for name in (*network.features, "tf_saved_model.index_path"):
        assert (name.encode() in data) == (name != "inlining_default"), name
    # Operations without a counterpart in EmitC.
    assert b"\0select\0" in data
    assert not any(b"\0%b\0" % word in data for word in (b"cumsum", b"log", b"minimum", b"maximum", b"clamp"))
    with pytest.raises(PolicyError, match="with --level"):
        run("export", "tosa", "--policy", spec, "--output", model)


@pytest.mark.libraries
@pytest.mark.parametrize(("activation", "normalizes", "outputs"), KINDS)
def test_the_graph_of_a_model_of_tosa_decides_as_its_network(
    activation: str, normalizes: bool, outputs: int, observations: Observations, tmp_path: Path
) -> None:
    for name in ("ai_edge_litert", "flatbuffers"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    network = make_network(observations, activation=activation, normalizes=normalizes, outputs=outputs)
    rows, place = observations[:1000].copy(), NAMES.index("inlining_default")
    rows[:, place] = rows[:, NAMES.index(COST)] < 5
    logits = network(rows.astype(np.float32))
    margins = logits[:, 0] if outputs == 1 else logits[:, 1] - logits[:, 0]
    for threshold in (None, 5):
        (tmp_path / "model").write_bytes(tflite_model("a network", network, threshold))
        model = load_model("tflite", tmp_path / "model")
        columns = [NAMES.index(tensor.name.removeprefix("action_").removesuffix(":0")) for tensor in model.inputs]
        assert (place in columns) == (threshold is None)
        decisions = [model.run(0, [np.array([row[column]]) for column in columns])[0] for row in rows]
        clear = abs(margins) > 1e-4 * abs(margins).max()  # sums and logarithms differ in their last bits
        assert (np.array(decisions) == (margins > 0))[clear].all()
        assert clear.mean() > 0.9
        assert 0.1 < np.mean(decisions) < 0.9


def header_decides(header: str, folder: Path) -> Callable[[list[bytes]], int]:
    """Return a function that gives the tensors of a decision to the class of a header, as LLVM's release mode does."""
    (folder / "main.cpp").write_text(f"""{header}
extern "C" int64_t decide(const char *data, const int *sizes, int count) {{
  llvm::InlinerSizeModel model;
  for (int i = 0; i < count; data += sizes[i++]) __builtin_memcpy(model.arg_data(i), data, sizes[i]);
  model.Run();
  return *static_cast<int64_t *>(model.result_data(0));
}}""")
    clang, objects = compiler_command("bundled", "g++"), str(folder / "main.o")
    subprocess.run([*clang, "-O2", "-fPIC", "-c", str(folder / "main.cpp"), "-o", objects], check=True)
    subprocess.run([clang[0], "ld.lld", "-shared", objects, "-o", str(folder / "main.so")], check=True)
    decide = ctypes.CDLL(str(folder / "main.so")).decide
    decide.restype = ctypes.c_int64

    def call(tensors: list[bytes]) -> int:
        return int(decide(b"".join(tensors), (ctypes.c_int * len(tensors))(*map(len, tensors)), len(tensors)))

    return call


def test_the_header_of_a_network_decides_as_it_without_clangs_own_decision(tmp_path: Path) -> None:
    """The labelled decisions are real; the header replaces clang's own decision by the estimated cost."""
    rows = labelled("Os", NAMES, 1000)
    network = make_network(rows)
    threshold = default_threshold("mine", network.features, "Os")
    assert threshold is not None
    decide = header_decides(release_header(network_decision_code("mine", network), "Os"), tmp_path)
    decisions = [decide([number.tobytes() for number in row]) for row in rows]
    rows[:, NAMES.index("inlining_default")] = rows[:, NAMES.index(COST)] < threshold
    assert decisions == (network(rows.astype(np.float32))[:, 0] > 0).tolist()
    assert 0.05 < np.mean(decisions) < 0.95


def test_a_policy_of_clangs_own_decision_needs_a_level() -> None:
    with pytest.raises(PolicyError, match=r"with --level.*as examples/sb3_ppo.py does"):
        release_header(decision_code("default"))
    header = release_header(decision_code("default"), "Os")
    assert "Features[0] = Features[1] < 50;" in header
    assert '"feed_inlining_default", "feed_cost_estimate"' in header
    with pytest.raises(PolicyError, match="expected a level of Oz, Os, got 'O2'"):
        release_header(decision_code("default"), "O2")
    assert "inlining_default" not in release_header(decision_code("threshold:20"))


def test_the_counters_of_the_driver_are_shown_and_zeroed(own_cache: Path) -> None:
    nothing = "mlgo-clang has compiled nothing\n"
    assert run("cc-stats", "--zero").stdout == nothing
    for names in (("left to clang",), ("compiled by clang alone", "because of rain"), ("left to clang",)):
        count(*names)
    expected = "       2  left to clang\n       1  compiled by clang alone\n       1  because of rain\n"
    assert run("cc-stats", "--zero").stdout == expected
    assert run("cc-stats").stdout == nothing


def test_an_export_that_is_impossible_is_refused(tmp_path: Path, callee_network: str) -> None:
    path = tmp_path / "wide.safetensors"
    random_network(("cost_estimate",), 33).save(path)
    for words, error, message in (
        ("llvm-header --policy no-such-policy", PolicyError, "expected a bundled policy, got 'no-such-policy'"),
        ("plugin --policy never --llvm-config echo", ToolchainError, "an llvm-config, got echo with the version"),
        (f"tosa --policy {callee_network}", PolicyError, r"needs callee features, .*: mlgo-gym train policy$"),
        ("tosa --policy threshold:3", PolicyError, "expected a network, got the rule 'threshold:3'"),
        (f"llvm-header --policy mlp:{path}", PolicyError, "expected a network with 1 or 2 outputs, got 33"),
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
    assert run("recipes", "verify", tmp_path).stdout == "0 recipes verified, 0 failed\n"
    (tmp_path / "odd.recipe").write_text("{}")
    verified = run("recipes", "verify", tmp_path)
    assert (verified.exit_code, verified.stdout) == (1, "odd: damaged\n0 recipes verified, 1 failed\n")
    assert run("recipes", "list", tmp_path).stdout.splitlines()[1].split() == ["odd", "damaged"]
    with pytest.raises(CorpusError, match="expected a folder of recipes, got"):
        run("recipes", "list", tmp_path / "nowhere")
