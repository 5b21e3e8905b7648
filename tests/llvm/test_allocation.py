"""The costs in clang's optimisation record, compared with those that PyYAML reads, and in its remarks."""

from pathlib import Path

import pytest

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.allocation_record import (
    LAST_REMARK,
    REMARK_FLAGS,
    read_allocation_record,
    read_allocation_remarks,
)
from mlgo_gym.llvm.toolchain import Toolchain
from tests.allocation import costs
from tests.conftest import MakeBitcode

PROGRAM = """
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)
#define LOAD(N) long v##N = p[N];
#define STORE(N) p[N] = v##N + 1;
#define NAMED(N, NAME) void f##N(volatile long *) __asm__(NAME); void f##N(volatile long *p) { EACH(LOAD) EACH(STORE) }
NAMED(0, "plain") NAMED(1, "it's") NAMED(2, "a \\"quote\\"") NAMED(3, "two words") NAMED(4, "123") NAMED(5, "true")
NAMED(6, "back\\\\slash") NAMED(7, "caf\\xc3\\xa9") NAMED(8, "bell\\a") NAMED(9, "- a: b # c")
"""
NAMES = {"plain", "it's", 'a "quote"', "two words", "123", "true", "back\\slash", "café", "bell\a", "- a: b # c"}

LAST = f"remark: <unknown>:0:0: 104{LAST_REMARK} 'f' [-Rpass-analysis=prologepilog]\n"
ALL = (
    "3 spills 2.250000e+00 total spills cost 2 folded spills 1.000000e+00 total folded spills cost "
    "4 reloads 1.875000e+00 total reloads cost 1 folded reloads 5.000000e-01 total folded reloads cost "
    "7 zero cost folded reloads 35 virtual registers copies 8.395156e+02 total copies cost "
)
SUM = 3.25 + 4 * (1.875 + 0.5) + 0.2 * 839.5156


def compile_with_record(bitcode: Path, toolchain: Toolchain, flags: tuple[str, ...] = ()) -> CompileResult:
    command = (*plan(Module("spills", bitcode), toolchain).command, *flags)
    with Session(command, optimization_record=True) as session:
        return session.finish(60)


@pytest.mark.parametrize("program", ["spills.c", "pressure.c"])
def test_costs_are_those_of_yaml_and_remarks(any_toolchain: Toolchain, make_bitcode: MakeBitcode, program: str) -> None:
    compiled = compile_with_record(make_bitcode(program, compiler=any_toolchain), any_toolchain, REMARK_FLAGS)
    record = compiled.optimization_record
    read = read_allocation_record(record)
    assert read
    assert read == pytest.approx(costs(record))
    remarks = [read_allocation_remarks(piece + LAST_REMARK) for piece in compiled.stderr.split(LAST_REMARK)[:-1]]
    assert [cost for cost in remarks if cost] == list(read.values())
    if program == "spills.c" and any_toolchain.bundled:
        # Loops are not counted twice.
        assert record.count(b"Name:            LoopSpillReloadCopies") == 1
        for before, after, complaint in (
            (b"TotalSpillsCost: '", b"TotalSpillsCost: 'x", "expected numbers and a name"),
            (b"Function:", b"Fanction:", "name its function"),
        ):
            assert before in record
            with pytest.raises(MlgoError, match=complaint):
                read_allocation_record(record.replace(before, after))


def test_function_names_are_read_from_yaml(any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source = tmp_path / "names.c"
    source.write_text(PROGRAM)
    bitcode = make_bitcode(source, compiler=any_toolchain)
    compiled = compile_with_record(bitcode, any_toolchain)
    assert {name.removeprefix("\x01") for name in read_allocation_record(compiled.optimization_record)} == NAMES
    with Session(plan(Module("spills", bitcode), any_toolchain).command) as plain:
        assert plain.finish(60).object_bytes == compiled.object_bytes
    assert read_allocation_record(b"") == {}


def remark(text: str, where: str = "function") -> str:
    return f"remark: <unknown>:0:0: {text}generated in {where} [-Rpass-missed=regalloc]\n"


def test_of_remarks_the_summary_of_the_last_function_counts() -> None:
    """Folded spills are spills; loops, later remarks, colours and source locations are ignored."""
    loop = remark("9 spills 9.000000e+00 total spills cost ", "loop")
    coloured = remark(ALL).replace("remark: ", "\x1b[1m/src/a: b.c:3:7: \x1b[0m\x1b[0;1;34mremark: \x1b[0m\x1b[1m")
    later = remark("1 reloads 1.000000e+00 total reloads cost ")
    for text in (remark(ALL), loop + remark(ALL), coloured.replace("<unknown>:0:0: ", "")):
        assert (
            read_allocation_remarks(text + LAST) == read_allocation_remarks(text + LAST + later) == pytest.approx(SUM)
        )
    assert read_allocation_remarks(LAST + remark(ALL) + LAST) == 0


def test_a_remark_of_another_form_is_refused() -> None:
    for text, complaint in (
        (remark(ALL), "expected the costs of register allocation"),
        (remark("3 spells 2.250000e+00 total spells cost ") + LAST, "was to give counts and costs"),
        (remark("3 spills many total spills cost ") + LAST, "was to give numbers"),
    ):
        with pytest.raises(MlgoError, match=complaint):
            read_allocation_remarks(text)
