"""The costs in clang's optimisation record, compared with those that PyYAML reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.allocation_record import NOTHING, AllocationCosts, CostWeights, read_allocation_record
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.session import Session
from tests.allocation import arguments, costs, counts
from tests.conftest import MakeBitcode

PROGRAM = """
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)
#define LOAD(N) long v##N = p[N];
#define STORE(N) p[N] = v##N + 1;
#define NAMED(FUNCTION, LABEL) \\
    void FUNCTION(volatile long *p) __asm__(LABEL); \\
    void FUNCTION(volatile long *p) { EACH(LOAD) EACH(STORE) }
NAMED(plain, "plain")
NAMED(quote, "it's")
NAMED(double_quote, "a \\"quote\\"")
NAMED(space, "two words")
NAMED(number, "123")
NAMED(keyword, "true")
NAMED(backslash, "back\\\\slash")
NAMED(accent, "caf\\xc3\\xa9")
NAMED(bell, "bell\\a")
NAMED(colon, "- a: b # c")
"""
NAMES = {"plain", "it's", 'a "quote"', "two words", "123", "true", "back\\slash", "café", "bell\a", "- a: b # c"}


def record_of(bitcode: Path, toolchain: Toolchain) -> bytes:
    with Session(plan(Module("spills", bitcode), toolchain).command, optimization_record=True) as session:
        return session.finish(60).optimization_record


def test_what_is_read_is_what_a_yaml_parser_reads(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    record = record_of(make_bitcode("spills.c", compiler=any_toolchain), any_toolchain)
    read = read_allocation_record(record)
    assert {"straight", "looping"} <= set(read)
    assert {name: one.cost(CostWeights()) for name, one in read.items()} == pytest.approx(costs(record, CostWeights()))
    assert {name: one.count for name, one in read.items()} == counts(record)
    assert sum(one.copies for one in read.values()) == sum(
        int(values.get("NumVRCopies", 0)) for values in arguments(record).values()
    )
    assert all(min(one.spills_cost, one.reloads_cost, one.copies_cost) >= 0 for one in read.values())


def test_loops_are_not_counted_twice(toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    record = record_of(make_bitcode("spills.c"), toolchain)
    assert record.count(b"Name:            LoopSpillReloadCopies") == 1
    looping = read_allocation_record(record)["looping"]
    assert looping.reloads == int(arguments(record)["looping"]["NumReloads"])


def test_names_of_functions_are_as_in_the_source_however_yaml_quotes_them(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    source = tmp_path / "names.c"
    source.write_text(PROGRAM)
    record = record_of(make_bitcode(source, compiler=any_toolchain), any_toolchain)
    assert {name.removeprefix("\x01") for name in read_allocation_record(record)} == NAMES


def test_an_empty_record_has_no_costs() -> None:
    assert read_allocation_record(b"") == {}


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ((b"NumSpills:       '", b"NumSpills:       'x"), "expected numbers and a name"),
        ((b"Function:", b"Fanction:"), "name its function"),
    ],
    ids=["number", "function"],
)
def test_a_damaged_remark_is_an_error(
    damage: tuple[bytes, bytes], complaint: str, toolchain: Toolchain, make_bitcode: MakeBitcode
) -> None:
    record = record_of(make_bitcode("spills.c"), toolchain)
    assert damage[0] in record
    with pytest.raises(MlgoError, match=complaint):
        read_allocation_record(record.replace(*damage))


numbers = st.floats(0, 1e6)
some_costs = st.builds(AllocationCosts, *[st.integers(0, 99), numbers] * 4)


@given(st.lists(some_costs, max_size=5))
def test_the_total_is_the_sum(every: list[AllocationCosts]) -> None:
    total = AllocationCosts.total(every)
    weights = CostWeights()
    assert total.count == sum(one.count for one in every)
    assert total.cost(weights) == pytest.approx(sum(one.cost(weights) for one in every))
    assert total == AllocationCosts.total(reversed(every))


@given(some_costs, st.builds(CostWeights, numbers, numbers, numbers, numbers))
def test_each_cost_has_its_weight(one: AllocationCosts, weights: CostWeights) -> None:
    expected = (
        weights.spill * one.spills_cost
        + weights.reload * one.reloads_cost
        + weights.folded_reload * one.folded_reloads_cost
        + weights.copy * one.copies_cost
    )
    assert one.cost(weights) == pytest.approx(expected)


def test_nothing_costs_nothing() -> None:
    assert NOTHING.cost(CostWeights()) == NOTHING.count == 0
