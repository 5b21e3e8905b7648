"""Internal linkage of functions that one object alone uses, by link facts, in builds with `mlgo-clang`."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mlgo_clang.internal_linkage import make_internal
from mlgo_clang.link_facts import with_header
from mlgo_gym.corpus import open_corpus
from mlgo_gym.llvm.link_facts import LinkFacts, objects_in
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from tests.mlgo_clang.conftest import DRIVERS, counted, facts_of_all

BITCODE = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")

SOURCE = """
extern int state;
int sink(int);
template <class T> T plain(T x) { for (T i = 0; i < x; ++i) state -= sink(x | i) + sink(x % 3); return state + x; }
inline int used(int x) __attribute__((used));
inline int used(int x) { return sink(x) * 3; }
inline int retained(int x) __attribute__((retain, used));
inline int retained(int x) { return sink(x) * 4; }
inline int placed(int x) __attribute__((section("placed")));
inline int placed(int x) { return sink(x) * 5; }
inline int named(int x) { return sink(x) * 6; }
inline int named_by_module(int x) { return sink(x) * 7; }
asm(".globl other\\n.set other, _Z15named_by_modulei");
inline int behind(int x) { return sink(x) * 8; }
inline int aliased(int x) { return sink(x) * 12; }
int alias(int) __attribute__((alias("_Z7aliasedi")));
template <class T> int explicit_one(T x) { return sink(x) * 9; }
template int explicit_one(int);
extern "C" inline int unmangled(int x) { return sink(x) * 10; }
__attribute__((weak)) int weak(int x) { return sink(x) * 11; }
struct Base { virtual ~Base(); int value; };
struct Derived : virtual Base { Derived() { value = sink(1); } ~Derived() { sink(value); } };
inline int counting(int x) { static int count = 0; return count += sink(x); }
int user(int x) {
    asm(".hidden _Z5namedi");
    Derived derived;
    return plain(x) + used(x) + retained(x) + placed(x) + named(x) + named_by_module(x) + behind(x) + aliased(x)
        + unmangled(x) + weak(x) + counting(x) + derived.value;
}
"""


def local_functions(data: bytes) -> set[str]:
    """Return the names of the functions of local binding in an object."""
    table = read_symbol_table(read_elf(data))
    assert table is not None
    return set(table.names(table.symbols[table.functions & ~table.visible]))


@pytest.mark.parametrize("flags", [("-Oz",), ("-O2", "-fPIC", "-g"), ("-O0",)])
def test_functions_of_one_object_alone_are_internal(flags: tuple[str, ...], tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "a.cpp").write_text(SOURCE)
    command = [str(DRIVERS["g++"]), *flags, "-fno-inline", "-c", "a.cpp", "-o"]
    subprocess.run([*command, "plain.o"], cwd=tmp_path, check=True, env={**os.environ, "MLGO_POLICY": "default"})
    symbols = set(LinkFacts.of_objects([(tmp_path / "plain.o").read_bytes()]).counts)
    facts_of_all(tmp_path / "facts", *symbols)
    expected = {"_Z5plainIiET_S0_", "_Z6behindi", "_Z8countingi"} if flags != ("-O0",) else set()
    # A complete and a base constructor share a comdat only if one is the other's alias.
    for policy, options in (("default", ()), ("last-call", ()), ("default", ("--mlgo-internal=off",))):
        before = counted("functions made internal")
        environment = {**os.environ, "MLGO_POLICY": policy, "MLGO_LINK_FACTS": str(tmp_path / "facts")}
        done = subprocess.run(
            [command[0], *options, *command[1:], "a.o"], cwd=tmp_path, check=True, env=environment, capture_output=True
        )
        local = local_functions((tmp_path / "a.o").read_bytes()) - {"_GLOBAL__sub_I_a.cpp"}
        members = {name for name in local if "Derived" in name or "Base" in name}
        assert local - members == (set() if options else expected), done.stderr
        assert counted("functions made internal") - before == len(local)
        if options:
            assert (tmp_path / "a.o").read_bytes() == (tmp_path / "plain.o").read_bytes()


def test_what_cannot_be_changed_is_compiled_as_before(tmp_path: Path, own_cache: Path) -> None:
    """Facts without such functions, a sanitizer, C, a message of the back end; damaged facts are one warning each.

    Facts of another compiler or target are one in a build.
    """
    (tmp_path / "a.cpp").write_text(SOURCE)
    (tmp_path / "a.c").write_text("inline int plain(int x) { return x; } int user(int x) { return plain(x); }")
    facts = tmp_path / "facts"
    frame = "-Wframe-larger-than=1"
    for source, flags, names, warnings in (
        ("a.cpp", (), (), 0),
        ("a.cpp", ("-fsanitize=undefined",), ("_Z6behindi",), 0),
        ("a.c", (), ("plain",), 0),
        ("a.cpp", (frame,), ("_Z6behindi",), 0),
        ("a.cpp", (), None, 1),
    ):
        facts.write_bytes(with_header(b"")[:-3]) if names is None else facts_of_all(facts, *names)
        objects, printed = [], []
        for policy, path in (("default", ""), ("default", str(facts))):
            command = [str(DRIVERS["g++"]), "-Oz", "-c", source, "-o", "a.o", *flags]
            environment = {**os.environ, "MLGO_POLICY": policy, "MLGO_LINK_FACTS": path}
            done = subprocess.run(command, cwd=tmp_path, check=True, env=environment, capture_output=True, text=True)
            objects.append((tmp_path / "a.o").read_bytes())
            printed.append(done.stderr)
        assert objects[0] == objects[1]
        assert printed[1].count("mlgo-clang: warning") == warnings
        assert (frame not in flags) or (printed[0] == printed[1] and "a.cpp:" in printed[0])


def test_one_start_of_clang_shows_its_command_and_runs_the_front_end(
    clang: dict[str, list[str]], tmp_path: Path, own_cache: Path
) -> None:
    """A third start would cost 10 to 20 ms; a script is started once more, since it may add flags."""
    script, facts = tmp_path / "clang", tmp_path / "facts"
    script.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/log\nexec {shlex.join(clang["g++"])} "$@"\n')
    script.chmod(0o755)
    (tmp_path / "a.cpp").write_text("inline int f(int x) { return x * x; } int g(int x) { return f(x); }")
    facts_of_all(facts, "_Z1fi")
    command = [str(DRIVERS["g++"]), f"--mlgo-clang={script}", "-Oz", "-c", "a.cpp", "-fno-inline", "-o", "a.o"]
    environment = {**os.environ, "MLGO_POLICY": "default", "MLGO_LINK_FACTS": str(facts), "MLGO_STRICT": "1"}
    subprocess.run(command, cwd=tmp_path, check=True, env=environment)
    assert local_functions((tmp_path / "a.o").read_bytes()) == {"_Z1fi"}
    log = [line for line in (tmp_path / "log").read_text().splitlines() if "a.cpp" in line]
    assert ["-###" in line for line in log] == [True, False]


@pytest.mark.parametrize(
    ("compilers", "targets", "warning"),
    [
        ((), ("i386", "x86_64"), ""),
        (("Debian clang version 22.1.8 (++2026)", "GCC: 12"), ("x86_64",), ""),
        (("GCC: (Debian) 12.2.0",), ("x86_64",), "got {} of GCC: (Debian) 12.2.0 for x86_64; all are used"),
        (("clang version 22.1.8",), ("aarch64", "arm"), "got {} of clang version 22.1.8 for aarch64 and arm; all"),
    ],
)
def test_facts_of_another_compiler_or_target_are_used_with_one_warning_per_build(
    compilers: tuple[str, ...], targets: tuple[str, ...], warning: str, tmp_path: Path, own_cache: Path
) -> None:
    (tmp_path / "a.cpp").write_text("inline int f(int x) { return x * x; } int g(int x) { return f(x); }")
    facts = tmp_path / "facts"
    LinkFacts(
        {"_Z1fi": (1, 1)}, frozenset({"a.cpp"}), False, {}, {"_Z1fi": "own"}, frozenset(compilers), frozenset(targets)
    ).write(facts)
    command = f"{DRIVERS['g++']} --target=x86_64-linux-gnu -O1 -fno-inline -c a.cpp -o"
    environment = {**os.environ, "MLGO_POLICY": "default", "MLGO_LINK_FACTS": str(facts)}
    words = ["sh", "-c", f"{command} a.o && {command} b.o"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert local_functions((tmp_path / "b.o").read_bytes()) == {"_Z1fi"}
    assert done.stderr.count("\n") == bool(warning), done.stderr
    assert warning.format(facts) in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_objects_equal_those_of_the_internalize_pass(tmp_path: Path) -> None:
    for program in ("clang++-22", "opt-22", "llvm-nm-22"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "a.cpp").write_text(SOURCE)
    (tmp_path / "b.cpp").write_text(
        '#include <regex>\nbool f(const char *s) { return std::regex_match(s, std::regex("a*b")); }'
    )
    for name in ("a", "b"):
        source, output = tmp_path / f"{name}.cpp", tmp_path / f"{name}.bc"
        subprocess.run(["clang++-22", "-Oz", *BITCODE, "-c", source, "-o", output], check=True)
    modules = {path.stem: path.read_bytes() for path in tmp_path.glob("*.bc")}
    modules |= {module.name: module.bitcode.read_bytes() for module in open_corpus("builtin") if "cpp/" in module.name}
    total = 0
    for name, bitcode in modules.items():
        plain, path, passed, public = (tmp_path / file for file in ("plain.o", "own.bc", "pass.bc", "public"))
        path.write_bytes(bitcode)
        compile_bitcode(path, plain)
        facts = LinkFacts.of_objects(objects_in(plain))
        own = frozenset(function.encode() for function, use in facts.uses.items() if use == "own")
        changed, number = make_internal(bitcode, own)
        kinds = [symbols_of(path)]
        path.write_bytes(changed)
        kinds.append(symbols_of(path))
        internal = {symbol for symbol, kind in kinds[1].items() if kind == "t" and kinds[0][symbol] != "t"}
        assert len(internal) == number, name
        total += number
        public.write_text("\n".join(sorted(kinds[0].keys() - internal)))
        plain_bitcode = tmp_path / "plain.bc"
        plain_bitcode.write_bytes(bitcode)
        words = ["opt-22", "-passes=internalize", f"-internalize-public-api-file={public}", str(plain_bitcode)]
        subprocess.run([*words, "-o", str(passed)], check=True)
        compile_bitcode(path, tmp_path / "ours.o")
        compile_bitcode(passed, tmp_path / "theirs.o")
        assert (tmp_path / "ours.o").read_bytes() == (tmp_path / "theirs.o").read_bytes(), name
        assert not number or (tmp_path / "ours.o").read_bytes() != plain.read_bytes()
    assert len(modules) > 5
    assert total > 100


def compile_bitcode(path: Path, output: Path) -> None:
    subprocess.run(["clang++-22", "-Oz", "-w", "-x", "ir", "-c", path, "-o", output], check=True, timeout=120)


def symbols_of(path: Path) -> dict[str, str]:
    text = subprocess.run(["llvm-nm-22", "--format=posix", path], check=True, capture_output=True, text=True).stdout
    return {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) > 1}
