"""The native code computes the callee features that Python computes, bit by bit."""

import ctypes
import random
import subprocess

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, callee_prediction_code
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.standard_error import CALLEE_FLAGS, TAIL_BYTES
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.make_env import make_environment

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


@pytest.mark.parametrize(("name", "share"), [("cpp/variant_vm", 0.5), ("c/btree", 0.2)])
def test_features_are_equal_after_random_answers(name: str, share: float, native: ctypes.CDLL) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
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
            native.mlgo_prediction_read(state, text.encode(), ctypes.c_int64(len(text)))
            assert native.mlgo_prediction_features(state, plain.payload, native_features)
            assert decision.payload == plain.payload + bytes(native_features), decisions
            inlined = int(chance.random() < share)
            native.mlgo_prediction_answer(state, inlined)
            copies.add(decision.payload[-8:-4])
            for answered in (session, printing):
                answered.advise(inlined.to_bytes(8, "little"))
            decisions += 1
    assert decisions > 20
    assert len(copies) > 2


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
