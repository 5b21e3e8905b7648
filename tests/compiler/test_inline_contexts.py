"""Contexts of inlining decisions, from clang's standard error."""

from pathlib import Path

import pytest

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain
from tests.compiler.test_session import default, run
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0

SOURCE = """
static int one(int x) { return x * 3 + 1; }
static int two(int x) { return one(x) * x + one(x + 1); }
static int pong(int n);
static int ping(int n) { return n > 3 ? pong(n - 2) + two(n) : 1; }
static int pong(int n) { return n > 5 ? ping(n - 1) + one(n) : 2; }
int named_oddly(int x) __asm__("a strange, name");
int named_oddly(int x) { return one(x) + two(x); }
int top(int x) { return two(x) + one(x + 1) + ping(x) + pong(x); }
"""


@pytest.fixture(scope="module")
def command(toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    source = tmp_path_factory.mktemp("source") / "contexts.c"
    source.write_text(SOURCE)
    return list(plan(Module("contexts", make_bitcode(source)), toolchain).command)


def test_every_decision_has_the_component_and_the_callee_of_its_call(command: list[str]) -> None:
    with Session(command, [INLINING], contexts=True) as session:
        decisions, _ = run(session)
        names = session.callees()
    places = [(*decision.site, callee) for decision, callee in zip(decisions, names, strict=True)]
    assert places[:2] == [("two", 0, 0, "one"), ("two", 0, 1, "one")]
    assert [place[3] for place in places if place[0] == "ping, pong"] == ["pong", "two", "ping", "one"]
    assert [place[3] for place in places if place[0] == "a strange, name"] == ["one", "two"]
    assert [place[3] for place in places if place[0] == "top"] == ["two", "one", "ping", "pong"]


def test_every_clang_prints_contexts_and_compiles_the_same(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    command = plan(Module("calls", make_bitcode("calls.c", compiler=any_toolchain)), any_toolchain).command
    with Session(command, [INLINING]) as plain, Session(command, [INLINING], contexts=True) as session:
        without, with_contexts = run(plain), run(session)
        assert plain.stderr == session.stderr == ""
        assert all(session.callees())
    assert len(without[0]) == 9
    assert all(decision.context for decision in with_contexts[0])
    assert [decision.payload for decision in without[0]] == [decision.payload for decision in with_contexts[0]]
    assert without[1] == with_contexts[1]


def test_sites_depend_on_no_other_decision_and_are_equal_in_a_copy(command: list[str]) -> None:
    with Session(command, [INLINING], contexts=True) as session, Session(command, [INLINING], contexts=True) as other:
        first = other.wait(LONG)
        assert first is not None
        other.advise(bytes([1 - default(first)[0]]) + bytes(7))
        assert session.wait(LONG) == first
        session.advise(default(first))
        assert session.wait(LONG) is not None
        with session.fork() as copied:
            ends = []
            for continued in (copied, session):
                continued.advise(bytes(8))
                ends.append((run(continued), continued.callees()))
        assert ends[0] == ends[1]
        tops = {decision.site for decision in ends[0][0][0] if decision.site.context == "top"}
        assert len(tops) > 3
        assert tops <= {decision.site for decision in run(other)[0]}


def test_contexts_follow_megabytes_of_code(toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source, name = tmp_path / "long.c", "x" * (1 << 20)
    functions = [f"int f{number}(int x) {{ return one(x) + far(x); }}" for number in range(7)]
    declared = f'static int one(int x) {{ return x * 3 + 1; }}\nint far(int x) __asm__("{name}");'
    source.write_text("\n".join([declared, *functions]))
    command = plan(Module("long", make_bitcode(source)), toolchain).command
    with Session(command, [INLINING], contexts=True) as session:
        decisions, _ = run(session)
    assert [decision.site for decision in decisions] == [DecisionSite(f"f{number}", 0, 0) for number in range(7)]


def test_the_error_of_a_failing_clang_has_no_code(command: list[str]) -> None:
    session = Session([*command, "-mllvm", "-no-such-option"], [INLINING], contexts=True)
    with session, pytest.raises(CompilerError, match="no-such-option") as error:
        session.finish(LONG)
    assert "IR Dump" not in str(error.value)
