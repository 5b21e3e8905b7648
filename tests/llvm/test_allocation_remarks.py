"""Remarks on register allocation, as clang writes them on standard error."""

from __future__ import annotations

import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.allocation_record import NOTHING, AllocationCosts, read_allocation_record
from mlgo_gym.llvm.allocation_remarks import LAST_REMARK, REMARK_FLAGS, read_allocation_remarks
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.session import Session
from tests.conftest import MakeBitcode

LAST = f"remark: <unknown>:0:0: 104{LAST_REMARK} 'f' [-Rpass-analysis=prologepilog]\n"
ALL = (
    "3 spills 2.250000e+00 total spills cost 2 folded spills 1.000000e+00 total folded spills cost "
    "4 reloads 1.875000e+00 total reloads cost 1 folded reloads 5.000000e-01 total folded reloads cost "
    "7 zero cost folded reloads 35 virtual registers copies 8.395156e+02 total copies cost "
)
SUM = AllocationCosts(5, 3.25, 4, 1.875, 1, 0.5, 35, 839.5156)


def remark(text: str, where: str = "function") -> str:
    return f"remark: <unknown>:0:0: {text}generated in {where} [-Rpass-missed=regalloc]\n"


def test_every_kind_of_cost_is_read_and_folded_spills_are_spills() -> None:
    assert read_allocation_remarks(remark(ALL) + LAST) == SUM


def test_loops_do_not_count_and_what_follows_neither() -> None:
    loop = remark("9 spills 9.000000e+00 total spills cost ", "loop")
    assert (
        read_allocation_remarks(loop + remark(ALL) + LAST + remark("1 reloads 1.000000e+00 total reloads cost ")) == SUM
    )


def test_a_function_without_a_summary_cost_nothing() -> None:
    assert read_allocation_remarks(LAST + remark(ALL) + LAST) == NOTHING


def test_colours_and_places_in_the_source_are_passed_over() -> None:
    coloured = remark(ALL).replace("remark: ", "\x1b[1m/src/a: b.c:3:7: \x1b[0m\x1b[0;1;34mremark: \x1b[0m\x1b[1m")
    assert read_allocation_remarks(coloured.replace("<unknown>:0:0: ", "") + LAST) == SUM


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (remark(ALL), "expected the costs of register allocation"),
        (remark("3 spells 2.250000e+00 total spells cost ") + LAST, "was to give counts and costs"),
        (remark("3 spills many total spills cost ") + LAST, "was to give numbers"),
    ],
)
def test_another_form_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(MlgoError, match=complaint):
        read_allocation_remarks(text)


@pytest.mark.parametrize("program", ["spills.c", "pressure.c", "mixed.c"])
def test_remarks_say_of_each_function_what_the_record_says(
    make_bitcode: MakeBitcode, any_toolchain: Toolchain, program: str
) -> None:
    bitcode = make_bitcode(program, compiler=any_toolchain)
    command = plan(Module("m", bitcode), any_toolchain).command
    with Session((*command, *REMARK_FLAGS), optimization_record=True) as session:
        compiled = session.finish(60)
    wanted = list(read_allocation_record(compiled.optimization_record).values())
    pieces = compiled.stderr.split(LAST_REMARK)
    found = [read_allocation_remarks(piece + LAST_REMARK) for piece in pieces[:-1]]
    assert wanted
    assert [costs for costs in found if costs != NOTHING] == wanted
