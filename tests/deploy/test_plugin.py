"""The pass plugin: the same decisions as the policy in the environment, in the compiler's own process."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym import Network, evaluate
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.deploy.c_code import DecisionCode, decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_code
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain
from tests.cli.command import run
from tests.conftest import PROGRAMS, MakeBitcode


def text(command: list[str], output: Path) -> int:
    subprocess.run([*command, "-o", str(output)], check=True, stdin=subprocess.DEVNULL)
    return object_sizes(output.read_bytes()).text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_decides_as_the_policy_in_the_environment_for_size_alone(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    """The network inlines little and uses clang's own decision."""
    majors = [major for major in (22, 19) if shutil.which(f"llvm-config-{major}") and shutil.which(f"clang++-{major}")]
    if not majors:
        pytest.skip("no LLVM with headers and a clang is installed")
    major = majors[0]
    llvm, clang = installed_llvm(f"llvm-config-{major}"), find_toolchain(f"clang-{major}")
    network, plugin, corpus = tmp_path / "network.safetensors", tmp_path / "plugin" / "it.so", tmp_path / "corpus"
    weight = np.array([[-1], [10]], np.float32)
    Network(("cost_estimate", "inlining_default"), (weight,), (np.array([-50], np.float32),)).save(network)
    plugin.parent.mkdir()
    with pytest.raises(ToolchainError, match="false failed"):
        build_plugin(decision_code("never"), llvm, plugin, compiler="false")
    assert list(plugin.parent.iterdir()) == []
    build_plugin(decision_code(f"mlp:{network}"), llvm, plugin, compiler=f"clang++-{major}")
    assert list(plugin.parent.iterdir()) == [plugin]
    loaded = f"-fpass-plugin={plugin}"
    corpus.mkdir()
    for program in ("seen_calls.ll", "families.c", "many_calls.c"):
        shutil.copy(make_bitcode(program, compiler=clang, triple="x86_64-linux-gnu"), corpus)
    arguments = {"clang": clang.command[0]}
    result = evaluate("mlgo/Inline-v0", policies=[f"mlp:{network}"], corpus=str(corpus), env_kwargs=arguments)
    expected = {episode.module: episode.metrics["text"] for episode in result.episodes}
    assert len(expected) == 3
    assert any(size != plain for size, plain in expected.values())
    for bitcode in corpus.glob("*.bc"):
        command = [*plan(Module(bitcode.stem, bitcode), clang).command]
        sizes = text([*command, loaded], tmp_path / "a.o"), text(command, tmp_path / "b.o")
        assert sizes == expected[bitcode.stem], bitcode.stem
    rule = tmp_path / "a.rule"
    # In 64-bit integers the product would be negative, or 0.
    large = "9007199254740992 * 1024"
    rule.write_text(
        f"cost_estimate < 5 and 0 < {large} * (1 + callee_comdat) and 0 < {large} * (1 + callee_users_left)"
        " or (callee_last == 1 and callee_kept == 0 and 0 <= callee_linkage <= 1)"
    )
    source, readable = tmp_path / "rule.cpp", tmp_path / "rule.so"
    words = ("--llvm-config", f"llvm-config-{major}", "--compiler", f"clang++-{major}", "--source", source)
    exported = run("export", "plugin", "--policy", f"rule:{rule}", *words, "--output", readable)
    assert exported.stdout.startswith(f"{readable}: rule:{rule} for LLVM {major}, ")
    assert "rankOfLinkage(Callee) <= 1" in source.read_text()
    result = evaluate("mlgo/Inline-v0", policies=[f"rule:{rule}"], corpus=str(corpus), env_kwargs=arguments)
    for episode in result.episodes:
        command = [*plan(Module(episode.module, corpus / f"{episode.module}.bc"), clang).command]
        size = text([*command, f"-fpass-plugin={readable}"], tmp_path / "a.o")
        assert size == episode.metrics["text"][0], episode.module
    driver = [f"clang-{major}", "-c", str(PROGRAMS / "many_calls.c")]
    assert text([*driver, "-Oz", loaded], tmp_path / "a.o") != text([*driver, "-Oz"], tmp_path / "b.o")
    for flags in (["-O2"], ["-Oz", "-flto=thin"], ["-Oz", "-flto"]):
        for options, output in (([loaded], tmp_path / "a.o"), ([f"-fpass-plugin={readable}"], tmp_path / "b.o")):
            subprocess.run([*driver, *flags, "-o", tmp_path / "plain.o"], check=True)
            subprocess.run([*driver, *flags, *options, "-o", output], check=True)
            assert output.read_bytes() == (tmp_path / "plain.o").read_bytes(), flags
    remarks = []
    for policy in ("threshold:20", "default"):
        build_plugin(decision_code(policy), llvm, plugin, compiler=f"clang++-{major}")
        remarked = [*driver, "-Oz", loaded, "-Rpass=inline-ml", "-o", str(tmp_path / "a.o")]
        remarks.append(subprocess.run(remarked, check=True, capture_output=True, text=True).stderr)
    assert [bool(remark) for remark in remarks] == [True, False], "clang's own advisor costs less"
    if lld := shutil.which(f"ld.lld-{major}"):
        build_plugin(decision_code("never"), llvm, plugin, compiler=f"clang++-{major}")
        # No call is inlined before the link.
        subprocess.run([*driver, "-Oz", "-flto", "-Xclang", "-disable-llvm-passes", "-o", tmp_path / "a.o"], check=True)
        link = [lld, "-shared", str(tmp_path / "a.o")]
        assert text([*link, f"--load-pass-plugin={plugin}"], tmp_path / "a.so") != text(link, tmp_path / "b.so")
    code = plugin_code(decision_code("threshold:20"), llvm)
    assert ("@" in code, "FeatureIndex::cost_estimate" in code) == (False, True)
    with pytest.raises(PolicyError, match=f"odd uses phase_of_the_moon, which .* LLVM {major} does not compute"):
        plugin_code(DecisionCode("odd", ("cost_estimate", "phase_of_the_moon"), ""), llvm)
