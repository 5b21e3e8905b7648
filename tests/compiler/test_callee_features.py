"""Callees of decisions are predicted, by native code as by Python; callee features are part of every observation."""

import ctypes
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym import CALLEE_FEATURES, CompilerEnv, MlgoError
from mlgo_gym.compiler.callee_features import callee_prediction_code
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.standard_error import CALLEE_FLAGS, TAIL_BYTES
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment

SOURCE = r"""
extern "C" int outside(int);
static int leaf(int) __asm__("l\"e\\af é");
static int leaf(int x) { return outside(x) * x; }
inline int middle(int x) { return leaf(x) + leaf(x + 1); }
static __attribute__((noinline)) int hidden(int x) { return x > 3 ? x : outside(x); }
static int once(int x) { return outside(x) * outside(x + 1); }
inline int rare(int x) { return outside(x) + outside(x + 2); }
extern "C" int top(int x) { return middle(x) + hidden(x) + leaf(x + 2); }
extern "C" int last(int x) { return middle(x) + once(x) + rare(x); }
"""
"""Inlining `middle` into `top` appends two calls of `leaf`; nobody decides about `hidden`."""

ANSWERS = (0, 0, 1, 0, 1, 1, 0, 0, 1)

# Linkages (0 internal, 1 linkonce, 4 other), unnamed, comdat; lines and calls of the callee; other functions, visits
# and decisions; calls of the callee that were kept, inlined, and are left; last; the same in the caller, for the
# pair, and within the callee; decisions in the module.
FEATURES = """
_Z6middlei leaf    0 1 0 1  3 1  0 0 0  0 0  3 0  0 0  0 0  0 0  0
_Z6middlei leaf    0 1 0 1  3 1  0 0 1  1 0  2 0  0 1  0 1  0 0  1
top        middle  1 1 1 4  5 2  0 0 0  0 0  3 0  0 0  0 0  0 2  2
top        leaf    0 1 0 4  3 1  0 0 1  2 0  1 0  1 0  0 0  0 0  3
top        leaf    0 1 0 4  3 1  0 0 2  3 0  0 0  1 1  0 1  0 0  4
top        leaf    0 1 0 4  3 1  0 0 3  3 1  0 0  2 1  1 1  0 0  5
last       middle  1 1 1 4  5 2  0 0 0  0 1  3 0  0 0  0 0  0 2  6
last       once    0 1 0 4  5 2  0 0 1  0 0  1 1  0 1  0 0  0 0  7
last       rare    1 1 1 4  5 2  0 0 2  0 0  2 1  0 2  0 0  0 0  8
"""


def make_calls(folder: Path, toolchain: Toolchain, flags: Sequence[str] = ()) -> Path:
    """Return the bitcode of the source."""
    source, bitcode = folder / "calls.cpp", folder / "calls.bc"
    source.write_text(SOURCE)
    words = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", str(source), "-o", str(bitcode)]
    result = toolchain.run(["--target=x86_64-unknown-linux-musl", *flags, *words])
    assert result.returncode == 0, result.stderr
    return bitcode


@pytest.mark.parametrize("flags", [[], ["-g"]], ids=["plain", "debug"])
def test_callee_features_count_the_calls_of_a_compile(flags: list[str], toolchain: Toolchain, tmp_path: Path) -> None:
    env = InlineEnv(corpus=make_calls(tmp_path, toolchain, flags), callee_features=True)
    observation, info = env.reset()
    lines = []
    for number, answer in enumerate(ANSWERS):
        values = dict(zip(env.feature_names, observation.tolist(), strict=True))
        features = {name: values[name] for name in CALLEE_FEATURES}
        assert features.pop("module_share") == pytest.approx(number / values["node_count"])
        lines.append([info["site"].context, info["callee"], *map(int, features.values())])
        if number == 3:
            copied = env.fork()
        observation, _, over, _, info = env.step(answer)
    env.close()
    assert over
    names = {"leaf": 'l"e\\af é', "middle": "_Z6middlei", "once": "_ZL4oncei", "rare": "_Z4rarei"}
    rows = [line.split() for line in FEATURES.strip().splitlines()]
    unknown = [-1, -1]  # link facts
    assert lines == [[context, names[callee], *map(int, numbers), *unknown] for context, callee, *numbers in rows]
    # A copy has counted what its original had.
    observation, *_ = copied.step(1)
    values = dict(zip(env.feature_names, observation.tolist(), strict=True))
    assert (values["module_decisions"], values["callee_inlined"]) == (4, 1)
    copied.close()


def test_nearly_all_callees_of_a_module_are_predicted_and_every_form_has_the_features() -> None:
    for form in ("flat", "vector"):
        env = InlineEnv(observation=form, callee_features=True)
        assert env.feature_names[-len(CALLEE_FEATURES) :] == tuple(CALLEE_FEATURES)
        observation, info = env.reset(options={"module": "c/scheduler"})
        assert info["callee"]
        for decisions in range(2):
            assert env.observation_space.contains(observation)
            values = dict(zip(env.feature_names, observation.tolist(), strict=True))
            assert values["module_decisions"] == decisions
            observation, *_ = env.step(1)
        env.close()
    assert isinstance(env, CompilerEnv)
    compilation, own = env.compilation(env.corpus.module("cpp/lexer_parser")), env.task.default_action
    compiled = run_inline_compile(compilation, env.task, lambda decision: int(own(decision)), 60.0)
    correct = [decision.predicted_callee == decision.callee for decision in compiled.decisions]
    assert len(correct) > 100
    assert sum(correct) > 0.9 * len(correct)
    with pytest.raises(MlgoError, match="unexpected keyword argument 'callee_features'"):
        gym.make("mlgo/RegAllocEvict-v0", callee_features=True)


LONG = 30.0


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("native")
    (folder / "code.c").write_text(callee_prediction_code(), encoding="ascii")
    compiler = compiler_command("bundled", "gcc")
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    subprocess.run(
        [*compiler, "-O1", "-fPIC", *strict, "-c", "code.c", "-o", "code.o"], cwd=folder, check=True, timeout=60
    )
    subprocess.run([compiler[0], "ld.lld", "-shared", "code.o", "-o", "code.so"], cwd=folder, check=True, timeout=60)
    library = ctypes.CDLL(str(folder / "code.so"))
    library.mlgo_prediction_start.restype = ctypes.c_void_p
    return library


@pytest.mark.parametrize(
    ("name", "share", "counts"), [("cpp/variant_vm", 0.5, 3), ("c/btree", 0.2, 3), ("calls", 0.5, 1)]
)
def test_features_are_equal_after_random_answers(
    name: str, share: float, counts: int, native: ctypes.CDLL, toolchain: Toolchain, tmp_path: Path
) -> None:
    corpus = make_calls(tmp_path, toolchain) if name == "calls" else "builtin"
    env = make_environment("mlgo/Inline-v0", {"corpus": corpus})
    command = env.compilation(env.corpus.module(name)).command
    chance, decisions = random.Random(name), 0
    copies: set[bytes] = set()
    state, native_features = ctypes.c_void_p(), (ctypes.c_float * len(CALLEE_FEATURES))()
    with Session(command) as session:
        table = read_symbol_table(read_elf(session.finish(LONG).object_bytes))
    assert table is not None
    names = sorted({*table.names(table.symbols[table.functions])})
    facts = LinkFacts({name: (number % 3, number % 2) for number, name in enumerate(names[::2])})
    with (
        Session(command, [INLINING], contexts=True, callee_features=True, link_facts=facts) as session,
        Session((*command, *CALLEE_FLAGS), [INLINING]) as printing,
    ):
        while (decision := session.wait(LONG)) is not None and decisions < 1500:
            plain = printing.wait(LONG)
            assert plain is not None
            assert printing.poll() is None  # everything is read that clang printed before its request
            if not state:
                text = printing.stderr
                assert len(text) < TAIL_BYTES
                printing.stop_at(b"no such output")
                printed = 0
                state = start(native, printing)
                lines = b"".join(b"%d %d 1 own %s\n" % (*facts.of(name), name.encode()) for name in facts.counts)
                native.mlgo_prediction_facts(state, lines, ctypes.c_int64(len(lines)), False)
            else:
                text = printing.captured[printed:]
                printed += len(text)
            data = text.encode()
            native.mlgo_prediction_read(state, data, ctypes.c_int64(len(data)))
            assert native.mlgo_prediction_features(state, plain.payload, native_features)
            assert decision.payload == plain.payload + bytes(native_features), decisions
            inlined = int(chance.random() < share)
            native.mlgo_prediction_answer(state, inlined)
            copies.add(decision.payload[-8:-4])
            for answered in (session, printing):
                answered.advise(inlined.to_bytes(8, "little"))
            decisions += 1
    assert decisions > 8
    assert len(copies) >= counts


def start(native: ctypes.CDLL, session: Session) -> ctypes.c_void_p:
    """Start the native prediction for the features of a session."""
    header = session.header()
    assert header is not None
    assert header.dtype.fields is not None
    fields = header.dtype.fields
    offsets = [fields[spec.name][1] for spec in header.features]
    sources = [fields[name][1] for name in ("callee_basic_block_count", "callee_users", "node_count")]
    return ctypes.c_void_p(
        native.mlgo_prediction_start((ctypes.c_int32 * len(offsets))(*offsets), len(offsets), *sources)
    )


def test_other_output_of_clang_is_kept(native: ctypes.CDLL) -> None:
    printed = (
        b"warning: before\n"
        b"; *** IR Dump Before InlinerPass on (g, f) ***\n"
        b"; Function Attrs: nounwind\n"
        b"define void @f() {\n  call void @g()\n\n3:                 ; preds = %2\n  ret void\n}\n"
        b"remark: <unknown>:0:0: g12true [-Rpass=inline-ml]\n"
        b"a.c:3:4: remark: h12false [-Rpass-missed=inline-ml]\n"
        b"warning: after\n"
    )
    state = ctypes.c_void_p(native.mlgo_prediction_start(None, 0, 0, 0, 0))
    native.mlgo_prediction_read(state, printed, ctypes.c_int64(len(printed)))
    native.mlgo_prediction_others.restype = ctypes.c_int64
    text = ctypes.c_void_p()
    length = native.mlgo_prediction_others(state, ctypes.byref(text))
    assert ctypes.string_at(text, length) == b"warning: before\nwarning: after\n"
