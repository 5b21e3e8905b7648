"""The cause of an exception of docs/explanation/exactness.md: calls that only unwinding reaches."""

from __future__ import annotations

from benchmarks.unwind_calls import forbid_unwind_calls

CLEANING_UP = """\
define void @f(ptr %0) #0 personality ptr @p {
  %2 = call i32 @g(ptr %0) #1
  invoke void @h(ptr %0)
          to label %3 unwind label %4

3:
  call void @g(ptr %0) #1
  ret void

4:
  %5 = landingpad { ptr, i32 }
          cleanup
  call void @llvm.lifetime.end.p0(ptr %0) #1
  br label %6

6:
  call void @g(ptr %0) #1
  invoke void @"h i"(ptr %0)
          to label %3 unwind label %4
}

attributes #0 = { minsize }
attributes #1 = { nounwind "x"="y" }
"""


def test_only_calls_that_only_unwinding_reaches_are_forbidden() -> None:
    changed, count = forbid_unwind_calls(CLEANING_UP)
    added = {line for line in changed.splitlines() if line not in CLEANING_UP.splitlines()}
    assert count == 2
    assert added == {
        "  call void @g(ptr %0) #1000000",
        '  invoke void @"h i"(ptr %0) #1000001',
        'attributes #1000000 = {  nounwind "x"="y"  noinline }',
        "attributes #1000001 = {  noinline }",
    }
    assert changed.count("call void @g(ptr %0) #1\n") == 1


def test_an_entry_block_may_have_a_name_as_those_of_rustc() -> None:
    _, count = forbid_unwind_calls(CLEANING_UP.replace("@p {\n", "@p {\nstart:\n"))
    assert count == 2
