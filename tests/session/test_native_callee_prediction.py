"""The native code computes the callee features that Python computes, bit by bit."""

from __future__ import annotations

import ctypes
import random
import subprocess

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.make_env import make_environment
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.session.protocol.callee_prediction import CalleePrediction, callee_prediction_code
from mlgo_gym.session.protocol.inline_contexts import InlineContexts, feature_offsets


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


class Both:
    """Computes the features of a session in both ways, and keeps the decisions that differ."""

    def __init__(self, native: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decisions = 0
        self.different: list[int] = []
        predict, answer = CalleePrediction.predict, CalleePrediction.answer
        state = ctypes.c_void_p()
        found = (ctypes.c_float * len(CALLEE_FEATURES))()

        def predict_both(
            prediction: CalleePrediction, payload: bytes, header: LogHeader, contexts: InlineContexts
        ) -> tuple[str, bytes]:
            expected = predict(prediction, payload, header, contexts)
            if not state:
                fields = header.dtype.fields
                assert fields is not None
                offsets = feature_offsets(header)
                sources = [fields[name][1] for name in ("callee_basic_block_count", "callee_users", "node_count")]
                table = (ctypes.c_int32 * len(offsets))(*offsets)
                state.value = native.mlgo_prediction_start(table, len(offsets), *sources)
            text = contexts._before
            native.mlgo_prediction_read(state, text, ctypes.c_int64(len(text)))
            assert native.mlgo_prediction_features(state, payload, found)
            self.decisions += 1
            if bytes(found) != expected[1]:
                self.different.append(self.decisions)
            return expected

        def answer_both(prediction: CalleePrediction, advice: bytes) -> None:
            answer(prediction, advice)
            native.mlgo_prediction_answer(state, int(any(advice)))

        monkeypatch.setattr(CalleePrediction, "predict", predict_both)
        monkeypatch.setattr(CalleePrediction, "answer", answer_both)


@pytest.mark.parametrize(
    ("module", "share"),
    [
        ("cpp/variant_vm", 0.5),
        ("cpp/sorting", 0.9),
        ("c/btree", 0.2),
        pytest.param("cpp/variant_vm", 1.0, marks=pytest.mark.slow),
        pytest.param("c/lz", 0.7, marks=pytest.mark.slow),
    ],
)
def test_features_are_equal_after_random_answers(
    module: str, share: float, native: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(native, monkeypatch)
    generator = random.Random(module)
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin", "callee_features": True, "max_decisions": 1500})
    names = [name for name in env.corpus.names if name.endswith(module.partition("/")[2])]
    env.reset(options={"module": names[0]})
    over = False
    while not over:
        *_, terminated, truncated, _ = env.step(int(generator.random() < share))
        over = terminated or truncated
    env.close()
    assert both.decisions > 20
    assert both.different == []


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
