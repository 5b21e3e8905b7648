"""Corpora of distributed ThinLTO builds, as LLVM's `extract_ir` writes them."""

import subprocess
from pathlib import Path

import pytest

from mlgo_gym import open_corpus
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.conftest import write_files
from tests.fakes.drive import play

SOURCES = {
    "user.c": "int helper(int); int twice(int x) { return helper(x) + helper(x + 1); }\n",
    "lib/helper.c": "int helper(int x) { return (x * 7 + 3) ^ (x * 7 + 38); }\n",
}
OBJECTS = ["user.o", "lib/helper.o"]


def run(folder: Path, *command: str) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_the_default_policy_gives_the_text_of_the_build(tmp_path: Path, toolchain: Toolchain) -> None:
    folder = write_files(tmp_path / "build", SOURCES)
    options = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC"]
    for name in SOURCES:
        run(folder, *toolchain.command, *options, "-flto=thin", "-c", name, "-o", f"{name.removesuffix('.c')}.o")
    link = [*bundled_command("ld.lld"), "-m", "elf_x86_64", "-shared", "--thinlto-index-only"]
    run(folder, *link, *OBJECTS, "-o", "out.so")
    index = ["-fthinlto-index=user.o.thinlto.bc", "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt"]
    run(folder, *toolchain.command, *options, "-x", "ir", "user.o", "-c", *index, "-o", "native.o")
    sections = read_elf((folder / "native.o").read_bytes()).named_sections()
    corpus = tmp_path / "corpus"
    write_description(corpus, ["user.o"], has_thinlto=True)
    (corpus / "user.o.bc").write_bytes(sections[".llvmbc"])
    (corpus / "user.o.cmd").write_bytes(sections[".llvmcmd"])
    (corpus / "user.o.thinlto.bc").write_bytes((folder / "user.o.thinlto.bc").read_bytes())
    last = play(InlineEnv(corpus=open_corpus(corpus, toolchain=toolchain), clang="bundled"), module="user.o")[-1]
    assert (last.reward, last.terminated, last.info["text"]) == (0.0, True, len(sections[".text"]))
