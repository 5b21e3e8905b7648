"""ThinLTO builds of two files: extracted, loaded, compiled, and run in environments."""

import json
import subprocess
from pathlib import Path

import pytest

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.importing import extract_corpus, read_elf_sections, read_object_list
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.envs import InlineEnv
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


@pytest.fixture(scope="module")
def prelinked(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Path:
    """A build folder with the two objects of `clang -flto=thin`."""
    folder = write_files(tmp_path_factory.mktemp("build"), SOURCES)
    for name in SOURCES:
        compile_only = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-flto=thin", "-c", name]
        run(folder, *toolchain.command, *compile_only, "-o", f"{name.removesuffix('.c')}.o")
    return folder


@pytest.fixture(scope="module")
def distributed(prelinked: Path, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Corpus]:
    """The folder of a distributed ThinLTO build, and the corpus extracted from it."""
    link = [*bundled_command("ld.lld"), "-m", "elf_x86_64", "-shared", "--thinlto-index-only"]
    run(prelinked, *link, *OBJECTS, "-o", "out.so")
    commands = []
    for name in OBJECTS:
        back_end = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-x", "ir", name, "-c"]
        index = [f"-fthinlto-index={name}.thinlto.bc", "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt"]
        arguments = [*toolchain.command, *back_end, *index, "-o", f"native/{name}"]
        (prelinked / "native" / name).parent.mkdir(parents=True, exist_ok=True)
        run(prelinked, *arguments)
        commands.append({"directory": str(prelinked), "file": name, "arguments": arguments})
    database = prelinked / "compile_commands.json"
    database.write_text(json.dumps(commands))
    output = tmp_path_factory.mktemp("corpora") / "distributed"
    report = extract_corpus(read_object_list(database), output)
    assert report.modules == [f"native/{name}" for name in OBJECTS]
    return prelinked, open_corpus(output, toolchain=toolchain)


@pytest.mark.slow
def test_the_default_policy_gives_the_text_of_the_build(distributed: tuple[Path, Corpus]) -> None:
    folder, corpus = distributed
    last = play(InlineEnv(corpus=corpus, clang="bundled"), module="native/user.o")[-1]
    (built,) = read_elf_sections(folder / "native" / "user.o", (".text",))
    assert (last.reward, last.terminated, last.info["text"]) == (0.0, True, len(built))
