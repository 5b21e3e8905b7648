"""Policies in the driver, in one step or two: decisions, settings, counters and objects."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.counters import count, parse, read_counters
from mlgo_clang.files import digest_of
from mlgo_clang.programs import front_end_bitcode
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.recipe import Recipe, keep_recipe
from mlgo_gym.llvm.sizes import ObjectSizes, object_sizes
from mlgo_gym.policies.network import FORMAT
from mlgo_gym.storage.tensors import format_tensors
from tests.fakes import drive
from tests.mlgo_clang.conftest import DRIVERS, SEVERAL, Run, counted, files, text, write_network

COMPILE = ("-Oz", "-c", "calls.c")


def test_each_policy_decides_and_of_several_the_smallest_object_is_kept(run: Run, project: Path, network: Path) -> None:
    def compiled(policy: str) -> tuple[int, bytes]:
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", *COMPILE).returncode == 0
        return text(project / "calls.o"), (project / "calls.o").read_bytes()

    names = ("default", "never", "always", "threshold:-1000", "threshold:30", "threshold:1000", f"mlp:{network}")
    alone = {policy: compiled(policy) for policy in names}
    assert alone["threshold:-1000"][0] == alone["never"][0] != alone["default"][0]
    assert alone["threshold:1000"][0] == alone["always"][0] > alone["default"][0]
    assert alone[f"mlp:{network}"][0] == alone["threshold:30"][0]
    assert len({size for size, _ in alone.values()}) == 3
    for policies in ("never,always", "always,threshold:30,default"):
        candidates = [alone[policy] for policy in policies.split(",")]
        size, data = compiled(policies)
        assert size == min(candidates)[0]
        assert (size, data) in candidates
    candidates = [compiled(policy) for policy in ("default", "never", "threshold:0", "last-call")]
    assert compiled(SEVERAL)[0] == min(candidates)[0]


@pytest.mark.parametrize(
    ("source", "failing"),
    [
        (
            (
                '__attribute__((error("x"))) void bad(void); extern unsigned s;\n'
                "static unsigned p(unsigned n) { if (n & 3) bad(); s += n; s ^= n << 3; return s / n; }\n"
                "unsigned a(void) { return p(4); } unsigned b(void) { return p(8); }\n"
            ),
            "never",
        ),
        (
            (
                'static unsigned f(unsigned n) { __asm__ volatile("my_label: nop"); return n * 3; }\n'
                "unsigned a(unsigned n) { return f(n) + f(n + 1); }\n"
            ),
            "always",
        ),
    ],
    ids=["error-attribute", "label"],
)
def test_a_policy_that_fails_is_dropped(source: str, failing: str, run: Run, project: Path, own_cache: Path) -> None:
    """Inlining decides whether these sources compile."""
    (project / "calls.c").write_text(source)
    assert run(f"--mlgo-policy={failing}", "--mlgo-strict", *COMPILE).returncode == 1
    for policies in (f"{failing},never,always", f"never,always,{failing}", SEVERAL):
        result = run(f"--mlgo-policy={policies}", "--mlgo-strict", *COMPILE)
        assert (result.returncode, result.stderr) == (0, b"")
        assert text(project / "calls.o") > 0
    assert counted("dropped a policy of a list") >= 3
    (project / "calls.c").write_text("int f(int n) { return m; }\n")
    assert run(f"--mlgo-policy={SEVERAL}", *COMPILE).returncode == 1


def test_the_smallest_object_is_the_one_that_loads_the_fewest_bytes(run: Run, project: Path) -> None:
    """In a chain of functions that each call the next twice, inlining saves unwind tables, and costs instructions."""
    chain = [
        f"static unsigned f{n}(unsigned n) {{ return f{n - 1}(n + {n}) ^ f{n - 1}(n * {n + 2}); }}"
        for n in range(1, 12)
    ]
    first = "unsigned g; static unsigned f0(unsigned n) { g += n; return n * 7 + g; }"
    (project / "calls.c").write_text("\n".join((first, *chain, "unsigned top(unsigned n) { return f11(n); }")))

    def sizes(*words: str) -> ObjectSizes:
        assert run(*words, "--mlgo-strict", "-Os", "-c", "calls.c").returncode == 0
        return object_sizes((project / "calls.o").read_bytes())

    kept, *alone = (sizes(f"--mlgo-policy={policies}") for policies in (SEVERAL, *SEVERAL.split(",")))
    assert kept.loaded == min(each.loaded for each in alone)
    assert kept.text > min(each.text for each in alone)


def test_a_build_in_which_a_larger_frame_is_an_error_stays_green(run: Run, project: Path) -> None:
    """Clang keeps these calls; `always` gives the caller the frames of both callees."""
    (project / "calls.c").write_text(
        "int format(char *, int); void again(int);\n"
        "static void show(int v) { char text[3000]; for (int i = 0; i < v; ++i) text[i] = v * i; format(text, v); }\n"
        "void walk(int v) { again(v); if (v > 3) { show(v); show(v + 1); } again(v + 1); }\n"
    )
    assert run("--mlgo-policy=default", *COMPILE).returncode == 0
    plain = (project / "calls.o").read_bytes()
    red = run("--mlgo-policy=always", "-Wframe-larger-than=3005", "-Werror", *COMPILE)
    assert (red.returncode, b"is compiled by clang alone: clang exited with status 1" in red.stderr) == (0, True)
    assert (project / "calls.o").read_bytes() == plain


TREE = "\n".join(
    (
        "unsigned g; static unsigned f0(unsigned n) { g += n; return n * 7 + g; }",
        *(f"static unsigned f{n}(unsigned m) {{ return f{n - 1}(m) ^ f{n - 1}(m * {n + 2}); }}" for n in range(1, 14)),
        "unsigned top(unsigned n) { return f13(n); }",
    )
)
RECURSION = """
typedef void (*F)(void *);
int use(int);
static void walk(void *p) { if (use(*(int *)p)) { ((F)walk)(p); ((F)walk)((char *)p + 4); } }
static void again(F f, void *p) { use(1); f((void *)f); f(p); }
static void self(void *p) { F f = (F)p; use(2); f((void *)f); f((void *)self); again(self, p); }
void start(int *p) { again(walk, p); again(self, p); self((void *)self); walk(p); }
"""
PARSER = "\n".join(
    (
        "int next(void); void report(const char *, int, int); static int line, column;",
        'static void fail(const char *m, int a) { report(m, a, line++); column = 0; report("again", a, column); }',
        'static void expect(int c, int w) { if (c != w) { fail("expected", w); if (c < 0) fail("end", c); } }',
        "static void skip(int c) { while (c > 0) { c = next(); if (c == 10) { line++; fail(0, c); } } }",
        "int parse(int c) { switch (c) {",
        *(f"case {n}: expect(next(), {n}); if (next()) fail(0, {n}); else skip({n}); break;" for n in range(40)),
        "} return line; }",
    )
)


@pytest.mark.parametrize("source", [TREE, RECURSION, PARSER], ids=["tree", "recursion", "parser"])
@pytest.mark.parametrize("target", ["", "--target=wasm32-wasip1"])
def test_inlining_always_makes_a_module_grow_within_a_limit(target: str, source: str, run: Run, project: Path) -> None:
    """WebAssembly has a wide limit; the reward has a floor."""
    (project / "calls.c").write_text(source)
    words = (*([target] if target else ()), *COMPILE)
    front = ("-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", "calls.bc")
    assert run("--mlgo-policy=default", *words, *front).returncode == 0
    _, reward, *_, info = drive.play(InlineEnv(corpus=str(project / "calls.bc")), 1)[-1]
    assert info["error"] == {}
    assert reward >= -10
    assert info["text"] < (24 if target else 4) * info["baseline_text"]
    assert run("--mlgo-policy=always", "--mlgo-strict", *words).returncode == 0
    assert text(project / "calls.o") == info["text"]


def test_settings_come_from_options_or_else_from_variables(run: Run, project: Path, plain: bytes) -> None:
    """A policy decides only at its levels."""

    def compiled(*words: str) -> bytes:
        assert run(*words, "-c", "calls.c", MLGO_POLICY="always").returncode == 0
        return (project / "calls.o").read_bytes()

    always, never = compiled("-Oz"), compiled("-Oz", "--mlgo-policy=never")
    assert always == compiled("-Oz", "--mlgo-policy=always") != never != plain
    for level in ("-O0", "-O2"):
        unchanged = compiled("--mlgo-policy=default", level)
        assert compiled(level) == unchanged
        assert (compiled("--mlgo-levels=O2, -Ofast", level) == unchanged) == (level == "-O0")


def test_an_untrusted_network_runs_no_code(run: Run, project: Path, own_cache: Path) -> None:
    evil = 'é"; int system(const char *); __attribute__((constructor)) void f(void) { system("touch evil"); } char *b="'
    tensors = {"0.weight": np.zeros((1, 1), np.float32), "0.bias": np.zeros(1, np.float32)}
    metadata = {"format": FORMAT, "features": json.dumps([evil]), "activation": "relu"}
    (project / "net.safetensors").write_bytes(format_tensors(tensors, metadata))
    # The program that reads the network prints the name in another encoding than UTF-8.
    result = run("--mlgo-policy=mlp:net.safetensors", "--mlgo-strict", *COMPILE, PYTHONIOENCODING="latin-1")
    assert (result.returncode, b"expected the name of a feature" in result.stderr) == (1, True)
    assert not (project / "evil").exists()


def test_the_version_has_the_digest_of_the_policy(run: Run, network: Path, tmp_path: Path) -> None:
    first = run(f"--mlgo-policy=mlp:{network}", "--version").stdout
    changed = tmp_path / network.name
    write_network(changed, "cost_estimate", -1, 31)
    assert first != run(f"--mlgo-policy=mlp:{changed}", "--version").stdout
    assert first == run(f"--mlgo-policy=mlp:{network}", "--version").stdout


def test_compiles_are_counted_and_several_policies_count_once(run: Run, project: Path, own_cache: Path) -> None:
    run("--mlgo-policy=never", *COMPILE)
    run("--mlgo-policy=never", "-E", "calls.c")
    (project / "garbage").write_bytes(bytes(100))
    run("--mlgo-policy=mlp:garbage", *COMPILE)
    (project / "warned.c").write_text("int f(int n) { int unused; return n; }\n")
    result = run("--mlgo-policy=always,never,default", "-Oz", "-Wall", "-c", "warned.c")
    assert (result.returncode, result.stderr.count(b"unused variable")) == (0, 1)
    counters = {name: number for name, number in read_counters().items() if not name.startswith("because")}
    assert counters == {"compiled with a policy": 2, "left to clang": 1, "compiled by clang alone": 1}
    assert parse(b"3 a\nno\n-4 b\n5 c d\n\xff\n") == {"a": 3, "c d": 5}


def test_builds_have_their_counters_and_a_full_file_keeps_whole_lines(run: Run, project: Path, own_cache: Path) -> None:
    make = project / "make"
    shutil.copy("/bin/sh", make)
    # Without their parent, since these tests may be part of a build of their own.
    orphan = ("sh", "-c", '"$@" &', "sh")
    for number in (1, 2):
        words = " ".join([str(DRIVERS["gcc"]), "--mlgo-policy=never", *COMPILE])
        assert run(before=(*orphan, make, "-c", f"{'; '.join([words] * number)}; true #")).returncode == 0
    assert (counted("compiled with a policy"), read_counters(last=True)["compiled with a policy"]) == (3, 2)
    others = set(own_cache.rglob("builds/*"))
    count("left to clang")
    (own,) = {*own_cache.rglob("builds/*")} - others
    names = [f"because {number} {'x' * 90}" for number in range(12_000)]
    own.write_text("".join(f"7 {name}\n" for name in names))
    count("left to clang")
    kept = {name: number for name, number in parse(own.read_bytes()).items() if name.startswith("because ")}
    assert 300 < len(kept) < 800
    assert all(kept[name] == 7 and name in names for name in kept)


def test_a_source_and_policies_and_folders_of_any_name_are_used(
    run: Run, clang: dict[str, list[str]], project: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    garbage, recipes = os.fsdecode(b"n\no\xff"), os.fsdecode(bytes([0xFE]))
    (project / recipes).mkdir()
    (project / garbage).write_bytes(bytes(100))
    for number, name in enumerate((os.fsdecode(b"\xff.c"), "two\nlines.c", "@ 'q\"$(touch pwned).c"), 1):
        shutil.copy(project / "calls.c", project / name)
        words = ("-Oz", "-c", f"./{name}", "-o", "it.o")
        done = run("--mlgo-policy=never", *words)
        assert (done.returncode, done.stderr) == (0, b"")
        done = run(f"--mlgo-policy=mlp:{garbage}", *words)
        assert (done.returncode, b"is compiled by clang alone" in done.stderr) == (0, True)
        assert counted("compiled by clang alone") == number
        bitcode = front_end_bitcode(clang["gcc"], words)
        keep_recipe(Recipe(name, digest_of(bitcode), "", (), 0, 0, {}), recipes, bitcode)
        assert run("--mlgo-policy=never", f"--mlgo-recipes={recipes}", *words).stderr == b""
        assert counted("compiled by a recipe") == number
    assert not (project / "pwned").exists()


def test_the_help_has_the_options_before_those_of_clang(run: Run) -> None:
    help_of_both, own = run("--help").stdout, run("--mlgo-help").stdout
    assert help_of_both.startswith(own)
    assert b"OVERVIEW: clang" in help_of_both[len(own) :]
    assert all(f"--mlgo-{name}" in own.decode("ascii") for name in ("policy=", "strict ", "help ", "recipes=DIR"))


def test_an_unknown_or_malformed_option_is_refused(run: Run, project: Path) -> None:
    options = {
        "--mlgo-polizy=never": b"got '--mlgo-polizy=never'",
        "--mlgo-clang=nowhere": b"nowhere",
        "--mlgo-policy=,": b"expected --mlgo-policy=NAME or a list",
        "--mlgo-levels=2,x": b"expected --mlgo-levels=0,1,2,3,s,z or some of them, got '2,x'",
    }
    for seconds in ("soon", "0", "nan", "1e9"):
        options[f"--mlgo-timeout={seconds}"] = b"expected seconds above 0 for --mlgo-timeout"
    for policy in ("mlp:/nowhere/at/all", "no-such-policy", "always,nevr", "threshold:many", "onnx:file"):
        options[f"--mlgo-policy={policy}"] = b"error: expected "
    for option, message in options.items():
        result = run(option, *COMPILE)
        assert (result.returncode, message in result.stderr, result.stderr.count(b"\n")) == (1, True, 1), result.stderr
    assert files(project) == ["calls.c"]


def test_clang_replaces_a_broken_policy(
    run: Run, project: Path, tmp_path: Path, plain: bytes, network: Path, own_cache: Path
) -> None:
    write_network(tmp_path / "foreign", "no_such_feature", 1, 0)
    (tmp_path / "garbage").write_bytes(bytes(100))
    for number, (name, reason) in enumerate((("foreign", b"no_such_feature"), ("garbage", b"a safetensors file")), 1):
        result = run(f"--mlgo-policy=mlp:{tmp_path / name}", *COMPILE)
        assert (result.returncode, reason in result.stderr) == (0, True)
        assert result.stderr.count(b"mlgo-clang: warning: calls.c is compiled by clang alone") == 1
        assert (project / "calls.o").read_bytes() == plain
        assert counted("compiled by clang alone") == number
        strict = run(f"--mlgo-policy=mlp:{tmp_path / name}", "--mlgo-strict", *COMPILE, "-o", "strict.o")
        assert (strict.returncode, b"error: calls.c" in strict.stderr) == (1, True)
    assert files(project) == ["calls.c", "calls.o"]
    result = run("--mlgo-policy=always,never", "--target=x86_64-apple-macos", *COMPILE)
    assert (result.returncode, b"calls.o cannot be measured: expected an ELF object, got" in result.stderr) == (0, True)


@pytest.mark.parametrize(
    "more",
    [
        ("-g", "-MD", "-MT", "own", "-Wall", "--serialize-diagnostics", "calls.dia"),
        ("-fdiagnostics-show-category=name", "-fno-diagnostics-show-option", "-w", "-fno-builtin", "-fstack-usage"),
        ("-Wall", "-fdiagnostics-format=sarif", "-Wno-sarif-format-unstable"),
        ("--target=aarch64-linux-gnu",),
    ],
)
def test_files_and_messages_are_those_of_one_step(more: tuple[str, ...], run: Run, project: Path, always: str) -> None:
    (project / "calls.c").write_text(
        "#include <stddef.h>\nint unused(void) { int x; return 3; }\n" + (project / "calls.c").read_text()
    )
    outcomes = []
    for policy in ("always", always):
        # The same name of the object, which debug information can contain.
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", *more, *COMPILE, "-o", "calls.o")
        assert result.returncode == 0, result.stderr
        made = {path.name: path.read_bytes() for path in project.iterdir() if path.name != "calls.c"}
        for name in made:
            (project / name).unlink()
        outcomes.append((result.stderr, made))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1]["calls.o"][18] == (183 if "aarch64" in more[0] else 62)  # the machine in the header of ELF


def test_the_decisions_of_a_network_are_compiled(run: Run, project: Path, tmp_path: Path, always: str) -> None:
    def size(policy: str) -> int:
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", "-g", "-fPIC", *COMPILE).returncode == 0
        return text(project / "calls.o")

    once = write_network(tmp_path / "once.safetensors", "module_decisions", -1, 0.5)
    assert size(once) not in (size("never"), size(always))
    assert size(f"{always},default") == size("default") < size(always) == size("always")
    # Closed streams and an encoding that lacks a letter of a path.
    shutil.copy(project / "calls.c", project / "ü.c")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    closed = ("sh", "-c", 'exec "$0" "$@" <&- >&-')
    words = (f"--mlgo-policy={always}", "--mlgo-strict", "-Oz", "-c", "ü.c", "-o", "calls.o")
    result = run(*words, before=closed, **ascii_only)
    assert (result.returncode, result.stderr) == (0, b"")
