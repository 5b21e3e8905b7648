"""The pass plugin: the same decisions as the policy in the environment, in the compiler's own process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.plugin_trace import agreement, in_traced_environment, in_traced_plugin, traced
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode, decision_code
from mlgo_gym.deploy.exported_policy import network_path
from mlgo_gym.deploy.plugin import InstalledLlvm, build_plugin, installed_llvm, plugin_code
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.call_features import CALL_FEATURES
from mlgo_gym.policies.network import Network
from tests.conftest import MakeBitcode


@pytest.fixture(scope="session", params=[22, 19])
def llvm(request: pytest.FixtureRequest) -> InstalledLlvm:
    """Each LLVM whose headers and clang are installed, in turn."""
    major: int = request.param
    for program in (f"llvm-config-{major}", f"clang++-{major}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return installed_llvm(f"llvm-config-{major}")


@pytest.fixture(scope="session")
def reluctant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that inlines little, and reads clang's own decision beside another feature."""
    path = tmp_path_factory.mktemp("network") / "reluctant.safetensors"
    weight = np.array([[-1], [10]], np.float32)
    Network(("cost_estimate", "inlining_default"), (weight,), (np.array([-50], np.float32),)).save(path)
    return path


@pytest.fixture(scope="session")
def plugin(llvm: InstalledLlvm, reluctant: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin of that network."""
    path = tmp_path_factory.mktemp("plugin") / "libmlgo_inline.so"
    build_plugin(decision_code("a network", reluctant), llvm, path, compiler=f"clang++-{llvm.major}")
    assert list(path.parent.iterdir()) == [path]
    return path


def text(command: list[str], output: Path) -> int:
    subprocess.run([*command, "-o", str(output)], check=True, stdin=subprocess.DEVNULL)
    return object_sizes(output.read_bytes()).text


@pytest.mark.timeout(600)
def test_it_decides_as_the_policy_in_the_environment(
    llvm: InstalledLlvm, plugin: Path, reluctant: Path, make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    clang = find_toolchain(f"clang-{llvm.major}")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for program in ("calls.c", "many_calls.c", "mixed.c"):
        shutil.copy(make_bitcode(program, compiler=clang, triple="x86_64-linux-gnu"), corpus)
    policy = f"mlp:{reluctant}"
    result = evaluate("mlgo/Inline-v0", policies=[policy], corpus=str(corpus), env_kwargs={"clang": clang.command[0]})
    expected = {episode.module: episode.measures["text_size"] for episode in result.episodes}
    assert len(expected) == 3
    assert any(policys != plain for policys, plain in expected.values())
    for bitcode in corpus.glob("*.bc"):
        command = [*plan(Module(bitcode.stem, bitcode), clang).command]
        sizes = (
            text([*command, f"-fpass-plugin={plugin}"], tmp_path / "plugin.o"),
            text(command, tmp_path / "plain.o"),
        )
        assert sizes == expected[bitcode.stem], bitcode.stem


@pytest.mark.timeout(600)
def test_it_decides_in_the_driver_in_opt_and_nowhere_but_for_size(
    llvm: InstalledLlvm, plugin: Path, make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    source = Path(__file__).parent.parent / "programs" / "many_calls.c"
    clang = [f"clang-{llvm.major}", "-c", str(source)]
    loaded = f"-fpass-plugin={plugin}"
    assert text([*clang, "-Oz", loaded], tmp_path / "a.o") != text([*clang, "-Oz"], tmp_path / "b.o")
    assert text([*clang, "-O2", loaded], tmp_path / "a.o") == text([*clang, "-O2"], tmp_path / "b.o")
    opt = llvm.programs / "opt"
    if opt.exists():
        bitcode = make_bitcode("many_calls.c", compiler=find_toolchain(clang[0]), triple="x86_64-linux-gnu")
        run = [str(opt), "-passes=default<Oz>", str(bitcode)]
        for name, extra in (("with.bc", [f"-load-pass-plugin={plugin}"]), ("without.bc", [])):
            subprocess.run([*run, *extra, "-o", str(tmp_path / name)], check=True)
        assert (tmp_path / "with.bc").read_bytes() != (tmp_path / "without.bc").read_bytes()


@pytest.mark.timeout(600)
def test_it_decides_in_a_thin_link_by_lld(llvm: InstalledLlvm, plugin: Path, tmp_path: Path) -> None:
    linker = shutil.which(f"ld.lld-{llvm.major}")
    if linker is None:
        pytest.skip(f"ld.lld-{llvm.major} is not installed")
    source = Path(__file__).parent.parent / "programs" / "many_calls.c"
    object_file = tmp_path / "thin.o"
    thin = [f"clang-{llvm.major}", "-Oz", "-fPIC", "-flto=thin", f"-fpass-plugin={plugin}"]
    subprocess.run([*thin, "-c", str(source), "-o", str(object_file)], check=True)
    driver = [f"clang-{llvm.major}", "-flto=thin", "-fuse-ld=lld", "-nostdlib"]
    sizes = [
        text([*command, "-shared", *extra, str(object_file)], tmp_path / "linked.so")
        for command, extra in (
            ([linker], []),
            ([linker], [f"--load-pass-plugin={plugin}"]),
            (driver, [f"-Wl,--load-pass-plugin={plugin}"]),
        )
    ]
    # What the policy left alone before the link, clang inlines in the link; but where the policy is asked there too.
    assert sizes[0] != sizes[1]
    assert sizes[1] == sizes[2]


@pytest.fixture(scope="session")
def returning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that inlines calls of functions of which one was kept before, and is shown all else of calls."""
    path = tmp_path_factory.mktemp("network") / "returning.safetensors"
    weight = np.array([[float(name == "callee_kept")] for name in CALL_FEATURES], np.float32)
    Network(CALL_FEATURES, (weight,), (np.array([-0.5], np.float32),)).save(path)
    return path


@pytest.mark.timeout(600)
def test_networks_see_of_calls_what_they_see_in_the_environment(
    llvm: InstalledLlvm, returning: Path, make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    clang = find_toolchain(f"clang-{llvm.major}")
    corpus, plugin = tmp_path / "corpus", tmp_path / "libmlgo_inline.so"
    corpus.mkdir()
    for program in ("seen_calls.ll", "families.c", "many_calls.c", "mixed.c"):
        shutil.copy(make_bitcode(program, compiler=clang, triple="x86_64-linux-gnu"), corpus)
    code = decision_code("a network", returning)
    build_plugin(traced(code), llvm, plugin, compiler=f"clang++-{llvm.major}")
    arguments = {"clang": clang.command[0], "calls": True}
    result = evaluate("mlgo/Inline-v0", policies=[f"mlp:{returning}"], corpus=str(corpus), env_kwargs=arguments)
    sizes = {episode.module: episode.measures["text_size"][0] for episode in result.episodes}
    env = make_environment("mlgo/Inline-v0", {**arguments, "corpus": str(corpus)})
    policy = load_policy(f"mlp:{returning}", env)
    varied = np.zeros(len(CALL_FEATURES), bool)
    for module in env.corpus:
        expected, decisions = in_traced_environment(env, policy, module)
        assert object_sizes(expected.object_bytes).text == sizes[module.name], "and so in an episode"
        found = in_traced_plugin(env.compilation(module).command, plugin, tmp_path / "plugin.o")
        assert 0 < sum(found.answers) < len(found.answers), "some calls are kept, and some are not"
        same = agreement(found, expected, decisions)
        assert same.explained, module.name
        assert same.foretold > 0.9 * same.compared
        if same.first is None:
            assert found.object_bytes == expected.object_bytes
        varied |= found.seen.min(0) < found.seen.max(0)
    env.close()
    # Clang hardly ever comes to a component again, and never in these.
    assert [name for name, varies in zip(CALL_FEATURES, varied, strict=True) if not varies] == ["component_visits"]


def test_plugins_of_other_policies_have_nothing_of_calls_in_them(llvm: InstalledLlvm, returning: Path) -> None:
    plain = plugin_code(decision_code("threshold:20"), llvm)
    assert "SeenCalls" not in plain
    assert "SeenCalls" in plugin_code(decision_code("a network", returning), llvm)


def test_the_name_of_two_networks_is_the_one_that_sees_calls_in_a_plugin_alone() -> None:
    assert network_path("inline-oz", calls=True) == network_path("inline-oz-calls", calls=True)
    assert network_path("inline-oz") == network_path("inline-oz-plain") != network_path("inline-oz-calls", calls=True)
    assert network_path("inline-oz-plain", calls=True) == network_path("inline-oz-plain")
    with pytest.raises(PolicyError, match=r"inline-oz-calls also sees which function is called .* export plugin"):
        network_path("inline-oz-calls")


def test_features_that_an_llvm_does_not_have_are_refused(llvm: InstalledLlvm) -> None:
    policy = DecisionCode("odd", ("cost_estimate", "phase_of_the_moon"), "")
    with pytest.raises(PolicyError, match=f"odd reads phase_of_the_moon, which .* LLVM {llvm.major} does not have"):
        plugin_code(policy, llvm)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ToolchainError, match="no program 'llvm-config-2'"):
        installed_llvm("llvm-config-2")


def test_a_compiler_that_fails_leaves_no_plugin(llvm: InstalledLlvm, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="was to succeed"):
        build_plugin(decision_code("never"), llvm, tmp_path / "plugin.so", compiler="false")
    assert list(tmp_path.iterdir()) == []


def test_the_code_is_small_and_has_all_of_the_policy_in_it(llvm: InstalledLlvm) -> None:
    code = plugin_code(decision_code("threshold:20"), llvm)
    assert "@" not in code
    assert "FeatureIndex::cost_estimate" in code
    assert len(code.splitlines()) < 200
