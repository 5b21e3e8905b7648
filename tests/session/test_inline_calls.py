"""The call that a decision is about is foretold."""

from __future__ import annotations

import gymnasium as gym
import pytest

import mlgo_gym
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.inline_calls import DISCARDABLE, EXTERNAL, INTERNAL, InlineCalls

assert mlgo_gym

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


def calls() -> InlineCalls:
    made = InlineCalls()
    made.begin(LEAF)
    made.begin(MIDDLE)
    return made


def test_the_first_call_of_a_known_function_is_foretold_with_what_its_code_says() -> None:
    call = calls().foretell("mid dle", blocks=1)
    assert call.callee == "leaf"
    assert (call.linkage, call.unnamed, call.comdat) == (INTERNAL, 1, 0)
    assert (call.instructions, call.calls) == (2, 1)
    assert call.caller_linkage == DISCARDABLE
    assert (call.previous, call.previous_inlined) == ("", 0)


def test_debugging_information_is_no_code() -> None:
    made = InlineCalls()
    value = "(i32 %0, !1, !DIExpression(), !2)\n"
    called = "  call void @llvm.dbg.value(metadata i32 %0, metadata !1, metadata !DIExpression()), !dbg !2\n  %2 ="
    made.begin(LEAF.replace("  %2 =", f"    #dbg_value{value}{called}"))
    made.begin(MIDDLE)
    call = made.foretell("mid dle", blocks=1)
    assert (call.callee, call.instructions, call.calls) == ("leaf", 2, 1)


def test_calls_of_an_inlined_body_come_after_all_others() -> None:
    made = calls()
    made.learn("leaf", 1, inlined=False)
    made.begin(TOP)
    assert made.foretell("top", blocks=3).callee == "mid dle"
    assert made.foretell("top", blocks=3).comdat == 1
    made.learn("mid dle", 3, inlined=True)
    call = made.foretell("top", blocks=1)
    assert (call.callee, call.caller_linkage, call.previous, call.previous_inlined) == ("leaf", EXTERNAL, "mid dle", 1)
    made.learn("leaf", 1, inlined=True)
    assert made.foretell("top", blocks=1).callee == "leaf", "the one that stood in the inlined body"
    made.learn("leaf", 1, inlined=True)
    assert made.foretell("top", blocks=1).callee == "", "there are no more"


def test_a_callee_with_another_number_of_blocks_is_passed_over() -> None:
    made = calls()
    made.learn("leaf", 1, inlined=False)
    made.begin(TOP)
    made.learn("mid dle", 3, inlined=False)
    made.begin(TOP)
    assert made.foretell("top", blocks=1).callee == "leaf"


def test_functions_that_clang_does_not_ask_about_are_passed_over() -> None:
    made = InlineCalls()
    made.begin(LEAF.replace("minsize", "noinline"))
    made.begin(MIDDLE)
    assert made.foretell("mid dle", blocks=1).callee == ""


def test_a_copy_goes_on_by_itself() -> None:
    made = calls()
    twin = made.copy()
    made.learn("leaf", 1, inlined=False)
    assert twin.foretell("mid dle", blocks=1).callee == "leaf"
    assert made.foretell("mid dle", blocks=1).callee == ""


def test_nearly_all_calls_of_a_module_are_foretold() -> None:
    env = gym.make("mlgo/Inline-v0", calls=True, info="full").unwrapped
    _, info = env.reset(options={"module": "cpp/lexer_parser"})
    foretold, said, over = [], [], False
    while not over:
        call = info["call"]
        foretold.append(call.callee)
        said.append(call.previous)
        _, _, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    env.close()
    right = [ours == theirs for ours, theirs in zip(foretold[:-1], said[1:], strict=True)]
    assert len(right) > 100
    assert sum(right) > 0.9 * len(right)


def test_environments_without_inlining_refuse_it() -> None:
    with pytest.raises(MlgoError, match="calls=True is for environments in which calls are inlined"):
        gym.make("mlgo/RegAllocEvict-v0", calls=True)
