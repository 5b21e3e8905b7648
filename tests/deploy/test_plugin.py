"""The pass plugin: the same decisions as the policy in the environment, in the compiler's own process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.plugin_trace import agreement, in_traced_environment, in_traced_plugin, traced
from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode, decision_code
from mlgo_gym.deploy.plugin import InstalledLlvm, build_plugin, installed_llvm, plugin_code
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from tests.conftest import PROGRAMS, MakeBitcode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="session", params=[22, 19])
def llvm(request: pytest.FixtureRequest) -> InstalledLlvm:
    """Each installed LLVM with headers and a clang."""
    major: int = request.param
    for program in (f"llvm-config-{major}", f"clang++-{major}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return installed_llvm(f"llvm-config-{major}")


@pytest.fixture(scope="session")
def reluctant(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The policy of a network that inlines little and uses clang's own decision."""
    path = tmp_path_factory.mktemp("network") / "reluctant.safetensors"
    weight = np.array([[-1], [10]], np.float32)
    Network(("cost_estimate", "inlining_default"), (weight,), (np.array([-50], np.float32),)).save(path)
    return f"mlp:{path}"


@pytest.fixture(scope="session")
def plugin(llvm: InstalledLlvm, reluctant: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin of that network."""
    path = tmp_path_factory.mktemp("plugin") / "libmlgo_inline.so"
    build_plugin(decision_code(reluctant), llvm, path, compiler=f"clang++-{llvm.major}")
    assert list(path.parent.iterdir()) == [path]
    return path


def text(command: list[str], output: Path) -> int:
    subprocess.run([*command, "-o", str(output)], check=True, stdin=subprocess.DEVNULL)
    return object_sizes(output.read_bytes()).text


@pytest.fixture
def corpus(llvm: InstalledLlvm, make_bitcode: MakeBitcode, tmp_path: Path) -> Path:
    """A folder of modules by the clang of that LLVM."""
    (tmp_path / "corpus").mkdir()
    clang = find_toolchain(f"clang-{llvm.major}")
    for program in ("seen_calls.ll", "families.c", "many_calls.c", "mixed.c"):
        shutil.copy(make_bitcode(program, compiler=clang, triple="x86_64-linux-gnu"), tmp_path / "corpus")
    return tmp_path / "corpus"


def test_it_decides_as_the_policy_in_the_environment(
    llvm: InstalledLlvm, plugin: Path, reluctant: str, corpus: Path, tmp_path: Path
) -> None:
    clang = find_toolchain(f"clang-{llvm.major}")
    arguments = {"clang": clang.command[0]}
    result = evaluate("mlgo/Inline-v0", policies=[reluctant], corpus=str(corpus), env_kwargs=arguments)
    expected = {episode.module: episode.metrics["text"] for episode in result.episodes}
    assert len(expected) == 4
    assert any(size != plain for size, plain in expected.values())
    for bitcode in corpus.glob("*.bc"):
        command = [*plan(Module(bitcode.stem, bitcode), clang).command]
        size = text([*command, f"-fpass-plugin={plugin}"], tmp_path / "plugin.o")
        assert (size, text(command, tmp_path / "plain.o")) == expected[bitcode.stem], bitcode.stem


def test_it_decides_in_the_driver_and_in_a_thin_link_but_only_for_size(
    llvm: InstalledLlvm, plugin: Path, tmp_path: Path
) -> None:
    source = str(PROGRAMS / "many_calls.c")
    clang, loaded = [f"clang-{llvm.major}", "-c", source], f"-fpass-plugin={plugin}"
    assert text([*clang, "-Oz", loaded], tmp_path / "a.o") != text([*clang, "-Oz"], tmp_path / "b.o")
    assert text([*clang, "-O2", loaded], tmp_path / "a.o") == text([*clang, "-O2"], tmp_path / "b.o")
    linker = shutil.which(f"ld.lld-{llvm.major}")
    if linker is None:
        pytest.skip(f"ld.lld-{llvm.major} is not installed")
    thin = tmp_path / "thin.o"
    subprocess.run([*clang, "-Oz", "-fPIC", "-flto=thin", loaded, "-o", str(thin)], check=True)
    driver = [clang[0], "-flto=thin", "-fuse-ld=lld", "-nostdlib"]
    plain, linked, driven = (
        text([*command, "-shared", str(thin)], tmp_path / "linked.so")
        for command in (
            [linker],
            [linker, f"--load-pass-plugin={plugin}"],
            [*driver, f"-Wl,--load-pass-plugin={plugin}"],
        )
    )
    # Clang inlines in the link what the policy kept before it, unless the policy decides there too.
    assert plain != linked == driven


def test_callee_features_are_those_of_the_environment(llvm: InstalledLlvm, corpus: Path, tmp_path: Path) -> None:
    clang = find_toolchain(f"clang-{llvm.major}")
    plugin, returning = tmp_path / "libmlgo_inline.so", tmp_path / "returning.safetensors"
    # A call is inlined if an earlier call of its callee was kept.
    weight = np.array([[float(name == "callee_kept")] for name in CALLEE_FEATURES], np.float32)
    Network(tuple(CALLEE_FEATURES), (weight,), (np.array([-0.5], np.float32),)).save(returning)
    code = decision_code(f"mlp:{returning}", callee_features=True)
    build_plugin(traced(code), llvm, plugin, compiler=f"clang++-{llvm.major}")
    env = InlineEnv(corpus=str(corpus), clang=clang.command[0], callee_features=True)
    policy = load_policy(f"mlp:{returning}", env)
    varied = np.zeros(len(CALLEE_FEATURES), bool)
    for module in env.corpus:
        expected, decisions = in_traced_environment(env, policy, module)
        found = in_traced_plugin(env.compilation(module).command, plugin, tmp_path / "plugin.o")
        assert 0 < sum(found.answers) < len(found.answers), "some calls are kept, and some are not"
        same = agreement(found, expected, decisions)
        assert same.explained, module.name
        assert same.predicted > 0.9 * same.compared
        if same.first is None:
            assert found.object_bytes == expected.object_bytes
        varied |= found.seen.min(0) < found.seen.max(0)
    env.close()
    # Clang rarely visits a component twice, and never in these modules.
    assert [name for name, varies in zip(CALLEE_FEATURES, varied, strict=True) if not varies] == ["component_visits"]


def test_the_code_contains_the_policy_and_a_compiler_that_fails_leaves_no_plugin(
    llvm: InstalledLlvm, tmp_path: Path
) -> None:
    code = plugin_code(decision_code("threshold:20"), llvm)
    assert ("@" in code, "DecisionHistory" in code, "FeatureIndex::cost_estimate" in code) == (False, False, True)
    with pytest.raises(PolicyError, match=f"odd uses phase_of_the_moon, which .* LLVM {llvm.major} does not compute"):
        plugin_code(DecisionCode("odd", ("cost_estimate", "phase_of_the_moon"), ""), llvm)
    with pytest.raises(ToolchainError, match="false failed"):
        build_plugin(decision_code("never"), llvm, tmp_path / "plugin.so", compiler="false")
    assert list(tmp_path.iterdir()) == []
