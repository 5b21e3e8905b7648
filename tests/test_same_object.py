"""The same answers give the same object, byte for byte, in every way to answer.

`benchmarks/exactness.py` compares many modules; these tests compare a few.
"""

from pathlib import Path

import pytest

from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.builtin import PROGRAMS
from tests.conftest import MakeBitcode
from tests.ways_to_answer import EVICT, INLINE, PRIORITY, Ways, in_wrapper, policy_objects

WAYS = ("vector", "forked", "warm")

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.skipif(not snapshot_support()[0], reason=snapshot_support()[1]),
]


@pytest.mark.parametrize(
    ("environment", "program"),
    [
        (INLINE, "families.c"),
        (INLINE, "mixed.c"),
        (EVICT, "mixed.c"),
        (EVICT, "pressure.c"),
        (PRIORITY, "mixed.c"),
        (PRIORITY, "pressure.c"),
    ],
)
def test_in_a_vector_in_forks_and_warm(environment: str, program: str, make_bitcode: MakeBitcode) -> None:
    corpus = str(make_bitcode(program))
    ways = Ways(environment, corpus, Path(corpus).stem, seed=len(program), max_random=60)
    (first,) = ways.single()
    answers = ways.answers
    assert len(set(answers)) > 1
    names = [*WAYS, *([] if environment == INLINE else ["preoptimized"])]
    assert {name: set(getattr(ways, name)()) for name in names} == {name: {first} for name in names}
    assert ways.answers == answers
    others = [Ways(environment, corpus, Path(corpus).stem, seed=seed, max_random=60).single()[0] for seed in (100, 101)]
    assert {*others} != {first}


def test_by_function(make_bitcode: MakeBitcode) -> None:
    corpus = str(make_bitcode("pressure.c"))
    pairs = Ways(EVICT, corpus, Path(corpus).stem).by_function()
    assert pairs
    for whole, part in pairs:
        assert whole == part


@pytest.mark.parametrize("name", ["c/btree.c", pytest.param("cpp/sorting.cpp", marks=pytest.mark.slow)])
def test_in_the_wrapper(name: str) -> None:
    assert len(set(in_wrapper(PROGRAMS / name))) == 1


@pytest.mark.parametrize(
    ("policy", "level", "name"),
    [
        ("network", "Oz", "c/btree.c"),
        ("last-call", "Os", "cpp/small_string.cpp"),
        pytest.param("network", "Os", "cpp/variant_vm.cpp", marks=pytest.mark.slow),
    ],
)
def test_a_policy_gives_one_object_in_every_way(policy: str, level: str, name: str, callee_network: str) -> None:
    objects = policy_objects(PROGRAMS / name, callee_network if policy == "network" else policy, level)
    assert list(objects) == ["gym.make", "evaluate", "trace", "mlgo-clang"]
    assert len(set(objects.values())) == 1
