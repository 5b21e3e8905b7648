"""Link facts: from objects to a file, and their effect on the policy `last-call`."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_clang.link_facts import with_header
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.link_facts import LinkFacts, objects_in
from mlgo_gym.llvm.linker import Folding
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.make_env import make_environment
from tests.cli.command import run
from tests.fakes.compiles import finished_compiles
from tests.mlgo_clang.test_internal_linkage import SOURCE, local_functions

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
    assert facts.uses == {"_Z6sharedi": "shared", "_Z5inneri": "shared", "_Z3owni": "own"}
    assert facts.targets == {platform.machine()}
    assert facts.folding == "none"
    assert any("clang version" in compiler for compiler in facts.compilers)
    assert (facts.of("_Z3owni"), facts.of("first")) == ((1, 1), (0, 0))
    # The second objects of libtool are no further copies; archives have the same objects, also thin ones.
    again = tmp_path / "again"
    (again / ".libs").mkdir(parents=True)
    for name in ("first", "second"):
        (again / ".libs" / f"{name}.o").write_bytes((build / f"{name}.o").read_bytes())
        compile_source(
            build, name, again / f"{name}.o", *compiler_command("bundled", "g++"), "-fPIC", "-gline-tables-only"
        )
    program = compiler_command("bundled", "gcc")[0]
    for archive, options in ((again / "thin.a", "rcT"), (tmp_path / "both.a", "rc")):
        members = sorted((again / ".libs" if options == "rc" else again).glob("*.o"))
        subprocess.run([program, "ar", options, archive, *members], check=True, timeout=60)
    assert (again / "thin.a").read_bytes().startswith(b"!<thin>")
    assert LinkFacts.of_objects(objects_in(again)) == LinkFacts.of_objects(objects_in(archive)) == facts
    # Names of BSD's archives, with a length and without, and two objects of other sources with one name.
    odd = (build / "first.o").read_bytes()
    for label, content in ((b"#1/abc", odd), (b"#1/8", b"first.o\0" + odd)):
        member = b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (label, 0, 0, 0, 0o644, len(content))
        (tmp_path / "odd.a").write_bytes(b"!<arch>\n" + member + content)
        assert LinkFacts.of_objects(objects_in(tmp_path / "odd.a")).counts.keys() == {*facts.counts}
    for number, text in enumerate((SECOND, SECOND.replace("x + 1", "x + 2"))):
        (tmp_path / "two" / str(number)).mkdir(parents=True)
        (tmp_path / "two" / str(number) / "main.cpp").write_text(text)
        compile_source(tmp_path / "two" / str(number), "main", tmp_path / "two" / str(number) / "main.o")
    assert LinkFacts.of_objects(objects_in(tmp_path / "two")).counts["_Z6sharedi"] == (2, 1)
    # A corpus is compiled by plain clang.
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in ("first", "second"):
        compile_source(build, name, corpus / f"{name}.bc", *compiler_command("bundled", "g++"), *BITCODE)
    write_description(corpus, ["first", "second"])
    run("link-facts", corpus, "--output", tmp_path / "of_corpus")
    assert LinkFacts.read(tmp_path / "of_corpus") == facts
    # Builds that are linked together add up; equal objects count once, and so do the references of one function.
    run("link-facts", build, archive, tmp_path / "two" / "1", "--output", output)
    assert LinkFacts.read(output).counts == {"_Z6sharedi": (3, 2), "_Z5inneri": (3, 1), "_Z3owni": (1, 1)}


def test_what_is_no_file_of_facts_is_one_clear_line(build: Path, tmp_path: Path) -> None:
    path = tmp_path / "facts"
    for damage, message in (
        (None, "expected a file of link facts, got .*: No such file"),
        (lambda data: data[:-3], "expected a complete file of link facts"),
        (lambda data: data.replace(b"\n2 2 0 ", b"\n1 2 0 "), "expected a complete file of link facts"),
        (lambda _: with_header(b"x 2 f\n"), "expected lines COPIES REFERENCES TWINS USE NAME"),
        (lambda _: with_header(b"1 2 0 odd f\n"), "expected lines COPIES REFERENCES TWINS USE NAME"),
        (lambda _: b"\x7fELF", "expected a complete file of link facts"),
    ):
        if damage is not None:
            LinkFacts.of_objects(objects_in(build)).write(path)
            path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(PolicyError, match=message):
            make_environment("mlgo/Inline-v0", {"callee_features": True, "link_facts": str(path)})
    with pytest.raises(MlgoError, match=r"or link_view=True with link_facts=.*, got neither"):
        make_environment("mlgo/Inline-v0", {"link_facts": str(path)})
    for endless in ("/dev/zero", str(tmp_path)):
        with pytest.raises(PolicyError, match=r"expected a file of link facts, got .*: expected a regular file"):
            LinkFacts.read(endless)
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n%-48s%-10d`\n" % (b"missing.o/", 10))
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("none", "expected a folder with objects"),
        ("/dev/zero", "expected a folder with objects"),
        ("empty", "expected ELF objects in .*/empty, got none"),
        ("thin.a", "expected the members of the thin archive .*No such file"),
    ):
        with pytest.raises(MlgoError, match=message):
            LinkFacts.of_objects(objects_in(tmp_path / name))


def test_last_call_keeps_what_other_objects_have_in_wrapper_and_environment(build: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    LinkFacts.of_objects(objects_in(build)).write(facts)
    wrapper = (WRAPPER, "--mlgo-policy=last-call", "--mlgo-strict")
    remaining = {}
    for name, options in (("rule", ()), ("facts", (f"--mlgo-link-facts={facts}",))):
        output = tmp_path / f"{name}.o"
        compile_source(build, "first", output, *wrapper, *options)
        remaining[name] = set(LinkFacts.of_objects(objects_in(output)).counts)
    assert remaining == {"rule": set(), "facts": {"_Z6sharedi"}}
    bitcode = tmp_path / "first.bc"
    compile_source(build, "first", bitcode, *compiler_command("bundled", "g++"), *BITCODE)
    with finished_compiles() as compiles:
        arguments = {"callee_features": True, "link_facts": str(facts)}
        evaluate("mlgo/Inline-v0", policies=["last-call"], corpus=str(bitcode), env_kwargs=arguments)
    (compiled,) = (compiled for compiled in compiles if not compiled.plain)
    assert set(LinkFacts.of_objects([compiled.object_bytes]).counts) == {"_Z6sharedi"}


def test_damaged_facts_leave_the_file_to_clang_unless_no_policy_reads_them(
    build: Path, tmp_path: Path, callee_network: str
) -> None:
    facts, output = tmp_path / "facts", tmp_path / "first.o"
    LinkFacts.of_objects(objects_in(build)).write(facts)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(facts.read_bytes().replace(b"\n1 1 0 own ", b"\n2 2 0 own "))
    objects = []
    for policy, path, message in (
        ("last-call", damaged, f"expected a complete file of link facts, got {damaged}"),
        ("last-call", "/dev/zero", "expected a file of link facts, got /dev/zero"),
        (callee_network, damaged, f"expected a complete file of link facts, got {damaged}"),
        (callee_network, f"{damaged} --mlgo-internal=off", ""),
        (callee_network, "", ""),
    ):
        words = (WRAPPER, f"--mlgo-policy={policy}", *(f"--mlgo-link-facts={path}".split() if path else ()))
        done = subprocess.run(
            [*words, "-Oz", "-c", "first.cpp", "-o", output], cwd=build, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr.count("\n")) == (0, int(bool(message)))
        assert message in done.stderr
        objects.append(output.read_bytes())
    plain = (build / "first.o").read_bytes()
    assert objects[:3] == [plain] * 3
    assert objects[3] == objects[4]


def test_clang_decides_about_functions_without_facts_in_a_source_without_facts(build: Path, tmp_path: Path) -> None:
    """In the wrapper and in the environment; the rule inlines these calls without facts."""
    facts = tmp_path / "facts"
    output, bitcode = tmp_path / "first.o", tmp_path / "first.bc"
    compile_source(build, "first", bitcode, *compiler_command("bundled", "g++"), *BITCODE)
    arguments = {"callee_features": True, "link_facts": str(facts)}
    for sources, remaining in (({"second.cpp"}, {"_Z6sharedi", "_Z5inneri", "_Z3owni"}), ({"first.cpp"}, set())):
        LinkFacts({}, frozenset(sources)).write(facts)
        assert LinkFacts.read(facts) == LinkFacts({}, frozenset(sources))
        compile_source(build, "first", output, WRAPPER, "--mlgo-policy=last-call", f"--mlgo-link-facts={facts}")
        assert set(LinkFacts.of_objects(objects_in(output)).counts) == remaining
        result = evaluate("mlgo/Inline-v0", policies=["last-call"], corpus=str(bitcode), env_kwargs=arguments)
        (row,) = result.episodes
        assert row.decisions > 0
        assert row.metrics["text"] == (
            object_sizes(output.read_bytes()).text,
            object_sizes((build / "first.o").read_bytes()).text,
        )


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
    # Functions become internal as in the wrapper.
    (tmp_path / "a.cpp").write_text(SOURCE)
    compile_source(tmp_path, "a", output, f"clang++-{major}", "-fno-inline")
    names = set(LinkFacts.of_objects(objects_in(output)).counts)
    own, objects = tmp_path / "own", list[bytes]()
    LinkFacts(dict.fromkeys(names, (1, 2)), frozenset({"a.cpp"}), uses=dict.fromkeys(names, "own")).write(own)
    for words in (
        [f"clang++-{major}", f"-fpass-plugin={library}"],
        [WRAPPER, f"--mlgo-clang=clang++-{major}", "--mlgo-strict"],
        [f"clang++-{major}", f"-fpass-plugin={library}"],
    ):
        environment = {**os.environ, "MLGO_LINK_FACTS": str(own), "MLGO_INTERNAL": "off" if len(objects) > 1 else ""}
        words += ["-Oz", "-fno-inline", "-c", "a.cpp", "-o", str(output)]
        subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=60)
        objects.append(output.read_bytes())
    assert objects[0] == objects[1]
    assert [len(local_functions(data)) > 5 for data in objects[1:]] == [True, False]
    for damaged in (facts.with_name("none"), facts):
        facts.write_bytes(facts.read_bytes()[:-3])
        environment = {**os.environ, "MLGO_LINK_FACTS": str(damaged)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        assert done.stderr.count("\n") == 1
        assert f"expected a complete file of link facts, got {damaged}" in done.stderr


USES = """
inline int called(int x) { return x * 3; }
inline int compared(int x) { return x * 5; }
extern "C" inline int by_assembly(int x) { return x * 7; }
struct Base { virtual int get(int) const; int state; };
struct Derived : Base { int get(int x) const override { return called(x) + state; } };
int use(const Base &, int (*)(int));
int owner(int x) { return use(Derived(), compared) + by_assembly(x); }
int second_owner(int x) { return called(x) + by_assembly(x); }
"""


def test_facts_tell_calls_and_vtables_from_addresses_and_references_of_other_objects(tmp_path: Path) -> None:
    (tmp_path / "owner.cpp").write_text(USES)
    (tmp_path / "other.cpp").write_text('asm(".quad by_assembly");')
    command = [*compiler_command("bundled", "g++"), "-fno-rtti", "-fno-inline", "-ffunction-sections"]
    for name in ("owner", "other"):
        compile_source(tmp_path, name, tmp_path / f"{name}.o", *command)
    assert LinkFacts.of_objects(objects_in(tmp_path)).uses == {
        "_Z6calledi": "own",
        "_Z8comparedi": "address",
        "by_assembly": "shared",
        "_ZNK7Derived3getEi": "own",
        "_ZN4BaseC2Ev": "own",
        "_ZN7DerivedC2Ev": "own",
    }


TWINS = """
#include <stdexcept>
#include <vector>
template <class T> struct Cell { T value; int kind; };
template <class T> void grow(std::vector<Cell<T> *> &cells, Cell<T> *cell) {
    cells.push_back(cell);
    if (cells.size() > 9) cells.erase(cells.begin());
}
template <class T> const char *name(int x) { return x ? "a name of a cell" : "another"; }
template <class T> int caught(int (*f)()) { try { return f(); } catch (T &) { return 1; } }
template <class T> int tested(T x) { return x == 4 ? 3 : 7; }
struct A {}; struct B {}; struct C {};
int call();
int keep(void *, void *);
template <class T> int all(std::vector<Cell<T> *> &cells, Cell<T> &cell) {
    grow(cells, &cell);
    return name<T>(cell.kind)[0] + caught<T>(call) + keep((void *)tested<int>, (void *)tested<unsigned>);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", "safe"])
def test_the_twins_are_those_that_lld_merges(mode: Folding, tmp_path: Path) -> None:
    for program in ("clang++-22", "ld.lld"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    for name, types in (("first", "AB"), ("second", "BAC")):
        calls = "".join(
            f"int {name}{t}(std::vector<Cell<{t}> *> &c, Cell<{t}> &d) {{ return all(c, d); }}" for t in types
        )
        (tmp_path / f"{name}.cpp").write_text(
            f"{TWINS}{calls}int tests{name}(int x) {{ return tested(x) + tested(1u * x); }}"
            f"int other{name}(std::vector<Cell<{types[-1]}> *> &c, Cell<{types[-1]}> &d) {{ grow(c, &d); return 1; }}"
        )
    (tmp_path / "main.cpp").write_text("int call() { return 1; } int keep(void *, void *) { return 2; } int main() {}")
    objects: list[Path] = []
    for path in sorted(tmp_path.glob("*.cpp")):
        objects.append(path.with_suffix(".o"))
        compile_source(
            tmp_path, path.stem, objects[-1], "clang++-22", "-fno-inline", "-ffunction-sections", "-fdata-sections"
        )
    flags = "-fuse-ld=lld", f"-Wl,--icf={mode},--print-icf-sections", "-o", str(tmp_path / "program")
    link = ["clang++-22", *map(str, objects), *flags]
    printed = subprocess.run(link, capture_output=True, text=True, check=True, timeout=60).stdout
    expected: dict[str, int] = {}
    for group in re.split("^selected", printed, flags=re.MULTILINE)[1:]:
        names = re.findall(r":\(\.text\.(\w+)\)", group)
        expected.update(dict.fromkeys(names, len(names) - 1))
    facts = LinkFacts.of_objects((path.read_bytes() for path in objects), mode)
    assert facts.twins == {name: twins for name, twins in expected.items() if name in facts.counts}
    assert len(facts.twins) > 4
    assert ("_Z6testedIiEiT_" in facts.twins) == (mode == "all")
    plain = LinkFacts.of_objects(path.read_bytes() for path in objects)
    assert plain.twins == {}
    for name, (copies, references) in facts.counts.items():
        assert copies == plain.counts[name][0] + facts.twins.get(name, 0)
        merged = name in facts.twins
        assert facts.uses[name] == ("shared" if merged else plain.uses[name])
        assert (references > plain.counts[name][1]) <= merged
    # Three functions `all` differ in what they catch, and the linker merges the two other callers.
    assert {references for name, (_, references) in facts.counts.items() if "growI" in name} == {4}
    # The file and the command.
    run("link-facts", *objects, "--icf", mode, "--output", tmp_path / "facts")
    assert LinkFacts.read(tmp_path / "facts") == facts


def test_a_link_with_another_folding_than_its_facts_is_one_warning_per_build(build: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text("int main() {}")
    facts = tmp_path / "facts"
    cases: tuple[tuple[Folding | None, str, int], ...] = (
        ("none", "-Wl,--icf=all -Wl,--gc-sections,--icf=safe", 1),
        ("all", "-Wl,--icf=all -Wl,--gc-sections,--icf=safe", 0),
        ("all", "-Wl,--icf=none -O2", 1),
        ("none", "-O2", 0),
        (None, "-Wl,--icf=all -O2", 1),
        (None, "-O2", 0),
    )
    for number, (folding, words, warnings) in enumerate(cases):
        LinkFacts.of_objects(objects_in(build), folding or "none").write(facts)
        path = str(facts) if folding else ""
        script = f"for word in {words}; do {WRAPPER} main.cpp $word; done; true"
        environment = {**os.environ, "MLGO_LINK_FACTS": path, "MLGO_CACHE": str(tmp_path / str(number))}
        command = ["sh", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        lines = [line for line in done.stderr.splitlines() if "mlgo-clang: warning: expected link facts" in line]
        assert len(lines) == warnings, done.stderr
        mode = words.split()[0].removeprefix("-Wl,")
        got = f"{facts} of --icf={folding}; run" if folding else "none, without which policies make programs larger"
        assert not lines or f"of {mode}, with which this build links, got {got}" in lines[0]
