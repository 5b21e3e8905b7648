"""Callees of decisions are predicted."""

from __future__ import annotations

import gymnasium as gym

from mlgo_gym.attribution.inline_compile import run_inline_compile
from mlgo_gym.env import CompilerEnv
from mlgo_gym.session.protocol.callee_features import DISCARDABLE, EXTERNAL, INTERNAL
from mlgo_gym.session.protocol.callee_prediction import CallQueue

LEAF = """leaf) ***
; Function Attrs: minsize nounwind
define internal i32 @leaf(i32 %0) unnamed_addr #0 {
  %2 = call i32 @outside(i32 %0)
  ret i32 %2
}
"""
MIDDLE = """middle) ***
define linkonce_odr void @"mid dle"(ptr %0) local_unnamed_addr #0 comdat {
  %2 = tail call i32 @leaf(i32 1)
  call void %0(ptr @leaf)
  ret void
}
"""
TOP = """top) ***
define void @top() {
  call void @"mid dle"(ptr null)
  %1 = invoke i32 @leaf(i32 2)
          to label %2 unwind label %3
}
"""


def calls() -> CallQueue:
    made = CallQueue()
    made.begin(LEAF)
    made.begin(MIDDLE)
    return made


def test_the_first_call_is_predicted_with_facts_of_its_callee() -> None:
    call = calls().predict("mid dle", blocks=1)
    assert call.callee == "leaf"
    assert (call.linkage, call.unnamed, call.comdat) == (INTERNAL, 1, 0)
    assert (call.instructions, call.calls) == (2, 1)
    assert call.caller_linkage == DISCARDABLE


def test_debug_information_does_not_count_as_code() -> None:
    made = CallQueue()
    value = "(i32 %0, !1, !DIExpression(), !2)\n"
    called = "  call void @llvm.dbg.value(metadata i32 %0, metadata !1, metadata !DIExpression()), !dbg !2\n  %2 ="
    made.begin(LEAF.replace("  %2 =", f"    #dbg_value{value}{called}"))
    made.begin(MIDDLE)
    call = made.predict("mid dle", blocks=1)
    assert (call.callee, call.instructions, call.calls) == ("leaf", 2, 1)


def test_calls_of_an_inlined_body_follow_all_others() -> None:
    made = calls()
    made.learn("leaf", 1, inlined=False)
    made.begin(TOP)
    assert made.predict("top", blocks=3).callee == "mid dle"
    assert made.predict("top", blocks=3).comdat == 1
    made.learn("mid dle", 3, inlined=True)
    call = made.predict("top", blocks=1)
    assert (call.callee, call.caller_linkage) == ("leaf", EXTERNAL)
    made.learn("leaf", 1, inlined=True)
    assert made.predict("top", blocks=1).callee == "leaf", "the one that stood in the inlined body"
    made.learn("leaf", 1, inlined=True)
    assert made.predict("top", blocks=1).callee == "", "there are no more"


def test_a_callee_with_another_number_of_blocks_is_skipped() -> None:
    made = calls()
    made.learn("leaf", 1, inlined=False)
    made.begin(TOP)
    made.learn("mid dle", 3, inlined=False)
    made.begin(TOP)
    assert made.predict("top", blocks=1).callee == "leaf"


def test_functions_without_decisions_are_skipped() -> None:
    made = CallQueue()
    made.begin(LEAF.replace("minsize", "noinline"))
    made.begin(MIDDLE)
    assert made.predict("mid dle", blocks=1).callee == ""


def test_a_copy_is_independent() -> None:
    made = calls()
    copied = made.copy()
    made.learn("leaf", 1, inlined=False)
    assert copied.predict("mid dle", blocks=1).callee == "leaf"
    assert made.predict("mid dle", blocks=1).callee == ""


def test_nearly_all_callees_of_a_module_are_predicted() -> None:
    env = gym.make("mlgo/Inline-v0", callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    compilation = env.compilation(env.corpus.module("cpp/lexer_parser"))
    own = env.task.default_action
    compiled = run_inline_compile(compilation, env.task, lambda each: int(own(each)), 60.0)
    env.close()
    correct = [decision.predicted_callee == decision.callee for decision in compiled.decisions]
    assert len(correct) > 100
    assert sum(correct) > 0.9 * len(correct)
