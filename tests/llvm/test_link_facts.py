"""Link facts: from objects to a file, and their effect on the policy `last-call`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.link_facts import UNKNOWN, LinkFacts, objects_in
from mlgo_gym.make_env import make_environment
from mlgo_gym.testing import finished_compiles
from tests.cli.command import run

WRAPPER = str(Path(sys.executable).with_name("mlgo-clang++"))

BITCODE = ("-emit-llvm", "-Xclang", "-disable-llvm-passes", "-Xclang", "-emit-llvm-uselists")

COMMON = """
int sink(int);
extern int state;
inline int inner(int x) {
    for (int i = 0; i < x; ++i) state -= sink(x | i) + sink(x % 3) + sink(i & x) + (state >> (x & 5));
    return state + x;
}
inline int shared(int x) {
    for (int i = 0; i < x; ++i) state += sink(x * i) ^ sink(x + 3) ^ sink(i - x) ^ (state << (x & 7));
    return inner(state) * x;
}
"""
FIRST = (
    COMMON
    + """
inline int own(int x) {
    for (int i = 0; i < x; ++i) state ^= sink(x / (i + 1)) + sink(x - 5) + sink(i * 3) + (state >> (x & 3));
    return state - x;
}
int first(int x) { return own(x) + shared(x); }
"""
)
SECOND = COMMON + "int second(int x) { return shared(x + 1); }"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sources and their objects at -Oz."""
    folder = tmp_path_factory.mktemp("build")
    for name, text in (("first", FIRST), ("second", SECOND)):
        (folder / f"{name}.cpp").write_text(text)
        compile_source(folder, name, folder / f"{name}.o")
    return folder


def compile_source(folder: Path, name: str, output: Path, *program: str) -> None:
    command = program or compiler_command("bundled", "g++")
    subprocess.run([*command, "-Oz", "-c", f"{name}.cpp", "-o", output], cwd=folder, check=True, timeout=60)


def test_facts_count_the_objects_of_each_weak_function(build: Path, tmp_path: Path) -> None:
    output = tmp_path / "facts"
    text = run("link-facts", build, "--output", output).stdout
    assert text == f"{output}: 3 weak functions, 1 of them in one object\n"
    facts = LinkFacts.read(output)
    assert facts.counts == {"_Z6sharedi": (2, 2), "_Z5inneri": (2, 1), "_Z3owni": (1, 1)}
    assert (facts.of("_Z3owni"), facts.of("first")) == ((1, 1), UNKNOWN)
    # The same sources once more, as libtool compiles them, are no further copies; an archive has the same objects.
    again = tmp_path / "again"
    again.mkdir()
    for name in ("first", "second"):
        (again / f"{name}.o").write_bytes((build / f"{name}.o").read_bytes())
    archive = tmp_path / "both.a"
    program = compiler_command("bundled", "gcc")[0]
    subprocess.run([program, "ar", "rc", archive, *sorted(again.iterdir())], check=True, timeout=60)
    assert LinkFacts.of_objects([*objects_in(build), *objects_in(again), *objects_in(archive)]) == facts
    # A corpus is compiled by plain clang.
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in ("first", "second"):
        compile_source(build, name, corpus / f"{name}.bc", *compiler_command("bundled", "g++"), *BITCODE)
    write_description(corpus, ["first", "second"])
    run("link-facts", corpus, "--output", tmp_path / "of_corpus")
    assert LinkFacts.read(tmp_path / "of_corpus") == facts
    # Builds that are linked together add up.
    text = run("link-facts", output, archive, "--output", output).stdout
    assert text == f"{output}: 3 weak functions, 0 of them in one object; 3 differ from the file before\n"
    assert LinkFacts.read(output).counts == {"_Z6sharedi": (4, 4), "_Z5inneri": (4, 2), "_Z3owni": (2, 2)}


def test_what_is_no_file_of_facts_is_one_clear_line(build: Path, tmp_path: Path) -> None:
    path = tmp_path / "facts"
    for damage, message in (
        (None, "expected a file of link facts, got .*: No such file"),
        (lambda data: data[:-3], "expected a complete file of link facts"),
        (lambda data: data.replace(b"\n2 2 ", b"\nx 2 "), "expected lines COPIES REFERENCES NAME"),
        (lambda _: b"\x7fELF", "expected a complete file of link facts"),
    ):
        if damage is not None:
            LinkFacts.of_objects(objects_in(build)).write(path)
            path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(PolicyError, match=message):
            make_environment("mlgo/Inline-v0", {"callee_features": True, "link_facts": str(path)})
    with pytest.raises(MlgoError, match=r"expected callee_features=True with link_facts=.*, got False"):
        make_environment("mlgo/Inline-v0", {"link_facts": str(path)})
    with pytest.raises(MlgoError, match="expected a folder with objects"):
        LinkFacts.of_objects(objects_in(tmp_path / "none"))


def test_last_call_keeps_what_other_objects_have_in_the_wrapper_and_in_the_environment(
    build: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts"
    LinkFacts.of_objects(objects_in(build)).write(facts)
    wrapper = (WRAPPER, "--mlgo-policy=last-call", "--mlgo-strict")
    remaining = {}
    with_facts = f"--mlgo-link-facts={facts}"
    search = (with_facts, f"--mlgo-recipes={tmp_path / 'recipes'}", "--mlgo-search=4")
    for name, options in (("rule", ()), ("facts", (with_facts,)), ("recipe", search)):
        output = tmp_path / f"{name}.o"
        compile_source(build, "first", output, *wrapper, *options)
        remaining[name] = set(LinkFacts.of_objects(objects_in(output)).counts)
    assert remaining == {"rule": set(), "facts": {"_Z6sharedi"}, "recipe": {"_Z6sharedi"}}
    assert len(list((tmp_path / "recipes").glob("*.recipe"))) == 1
    bitcode = tmp_path / "first.bc"
    compile_source(build, "first", bitcode, *compiler_command("bundled", "g++"), *BITCODE)
    with finished_compiles() as compiles:
        arguments = {"callee_features": True, "link_facts": str(facts)}
        evaluate("mlgo/Inline-v0", policies=["last-call"], corpus=str(bitcode), env_kwargs=arguments)
    (compiled,) = (compiled for compiled in compiles if not compiled.plain)
    assert set(LinkFacts.of_objects([compiled.object_bytes]).counts) == {"_Z6sharedi"}


def test_a_policy_without_facts_and_damaged_facts_leave_the_file_to_clang(build: Path, tmp_path: Path) -> None:
    facts, output = tmp_path / "facts", tmp_path / "first.o"
    LinkFacts.of_objects(objects_in(build)).write(facts)
    (tmp_path / "damaged").write_bytes(facts.read_bytes()[:-1])
    for policy, path, message in (
        ("inline-oz", facts, "expected a policy that uses link facts"),
        ("last-call", tmp_path / "damaged", "expected a complete file of link facts"),
    ):
        words = (WRAPPER, f"--mlgo-policy={policy}", f"--mlgo-link-facts={path}")
        done = subprocess.run(
            [*words, "-Oz", "-c", "first.cpp", "-o", output], cwd=build, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0
        assert done.stderr.count("\n") == 1
        assert f"first.cpp is compiled by clang alone: {message}" in done.stderr
        assert output.read_bytes() == (build / "first.o").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("major", [22, 19])
def test_a_plugin_reads_the_facts(major: int, build: Path, tmp_path: Path) -> None:
    for program in (f"clang++-{major}", f"llvm-config-{major}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    library, facts, output = tmp_path / "plugin.so", tmp_path / "facts", tmp_path / "first.o"
    build_plugin(decision_code("last-call", callee_features=True), installed_llvm(f"llvm-config-{major}"), library)
    LinkFacts.of_objects(objects_in(build)).write(facts)
    command = [f"clang++-{major}", "-Oz", f"-fpass-plugin={library}", "-c", str(build / "first.cpp"), "-o", str(output)]
    remaining = []
    for path in ("", str(facts)):
        subprocess.run(command, check=True, timeout=60, env={**os.environ, "MLGO_LINK_FACTS": path})
        remaining.append(set(LinkFacts.of_objects(objects_in(output)).counts))
    assert remaining == [set(), {"_Z6sharedi"}]
    for damaged in (facts.with_name("none"), facts):
        facts.write_bytes(facts.read_bytes()[:-3])
        environment = {**os.environ, "MLGO_LINK_FACTS": str(damaged)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        assert done.stderr.count("\n") == 1
        assert f"expected a complete file of link facts, got {damaged}" in done.stderr
