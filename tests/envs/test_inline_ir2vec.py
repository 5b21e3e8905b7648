"""Embeddings of IR2Vec: vocabularies and observations."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, InlineIR2VecEnv
from mlgo_gym.envs.inline_ir2vec import OLDEST_CLANG, one_hot_vocabulary, vocabulary_file
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.features import OPCODES
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.drive import play

pytestmark = pytest.mark.usefixtures("nothing_is_left")


_FUNCTION = re.compile(r"^define .*? @(?P<name>\w+)\(.*\{\n(?P<body>(?:.*\n)*?)\}", re.MULTILINE)
_INSTRUCTION = re.compile(
    r"^  (?P<result>%[\w.]+ = )?(?:(?:tail|musttail|notail) )?(?P<opcode>[a-z_]+)(?P<rest>.*)$", re.MULTILINE
)


def instructions(text: str, function: str) -> list[tuple[str, bool, str]]:
    """Return the opcode of each instruction of a function, whether it has a result, and what follows the opcode."""
    bodies = {match["name"]: match["body"] for match in _FUNCTION.finditer(text)}
    found = _INSTRUCTION.finditer(bodies[function])
    return [(match["opcode"], match["result"] is not None, match["rest"]) for match in found]


@pytest.fixture(scope="session")
def able(any_toolchain: Toolchain) -> Toolchain:
    """Each clang that is installed and can do it, in turn."""
    if any_toolchain.version[0] < OLDEST_CLANG:
        pytest.skip(f"clang {any_toolchain.version_text} is older than {OLDEST_CLANG}")
    return any_toolchain


def test_the_embeddings_are_histograms_of_both_functions(able: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("histogram.ll", compiler=able)
    # The module on its way into the inliner at the first function with calls.
    printing = ["-mllvm", "-print-before=inline", "-mllvm", "-print-module-scope"]
    answer = able.run(["-cc1", "-Oz", "-emit-llvm", "-w", *printing, "-x", "ir", str(bitcode), "-o", "-"])
    _, found, text = answer.stderr.partition("; *** IR Dump Before InlinerPass on (caller) ***\n")
    assert found, answer.stderr
    text = text.partition("; *** IR Dump")[0]
    env = InlineIR2VecEnv(corpus=str(bitcode), clang=clang_argument(able))
    observation, _ = env.reset()
    env.close()
    seen = dict(zip(env.feature_names, observation.tolist(), strict=True))
    for function in ("callee", "caller"):
        every = instructions(text, function)
        counted = {name.lower(): seen[f"{function}_opcode_{name}"] for name in OPCODES}
        assert {opcode: count for opcode, count in counted.items() if count} == Counter(opcode for opcode, *_ in every)
        predicates = Counter(f"{opcode} {rest.split()[0]}" for opcode, _, rest in every if opcode in ("icmp", "fcmp"))
        compared = {f"icmp {kind}": seen[f"{function}_operand_ICMP_{kind}"] for kind in ("eq", "slt", "ult")}
        assert {name: count for name, count in compared.items() if count} == predicates
        assert sum(seen[name] for name in seen if name.startswith(f"{function}_type_")) == len(every)
        assert seen[f"{function}_type_VoidTy"] == sum(not result for _, result, _ in every)
    assert seen["callee_opcode_Load"] == 2
    assert seen["caller_opcode_Call"] == 2
    assert seen["caller_operand_Function"] == 2


def test_all_else_is_as_in_the_environment_without_embeddings(able: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = str(make_bitcode("calls.c", compiler=able))
    more, plain = (kind(corpus=bitcode, clang=clang_argument(able)) for kind in (InlineIR2VecEnv, InlineEnv))
    columns = [more.feature_names.index(name) for name in plain.feature_names]
    first, second = more.reset(), plain.reset()
    np.testing.assert_array_equal(first[0][columns], second[0])
    for ours, theirs in zip(play(more), play(plain), strict=True):
        np.testing.assert_array_equal(ours.observation[columns], theirs.observation)
        assert (ours.reward, ours.info) == (theirs.reward, theirs.info)


def vocabulary(tmp_path: Path, content: Any) -> str:
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_vocabulary_of_ones_own_decides_length_and_unit(tmp_path: Path, calls: Path) -> None:
    two = {
        section: {name: [3.0 * (name == "Ret"), 0.0] for name in entries}
        for section, entries in one_hot_vocabulary().items()
    }
    env = InlineIR2VecEnv(corpus=str(calls), vocabulary=vocabulary(tmp_path, two))
    assert {"callee_embedding[0]", "callee_embedding[1]", "caller_embedding[1]"} < {*env.feature_names}
    assert "callee_embedding[2]" not in env.feature_names
    observation, _ = env.reset()
    env.close()
    assert observation[env.feature_names.index("callee_embedding[0]")] == 3.0
    assert observation[env.feature_names.index("callee_embedding[1]")] == 0.0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"Opcodes": {}}, r"got one without \['Types', 'Arguments'\]"),
        ([1], r"got one without \['Opcodes', 'Types', 'Arguments'\]"),
    ],
    ids=["sections", "list"],
)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(MlgoError, match=complaint):
        InlineIR2VecEnv(vocabulary=vocabulary(tmp_path, content))


def test_the_file_of_a_vocabulary_is_named_by_its_contents(own_cache: Path, tmp_path: Path) -> None:
    built_in, own = vocabulary_file("one-hot"), tmp_path / "own.json"
    assert json.loads(built_in.read_text()) == one_hot_vocabulary()
    own.write_text('{"Opcodes": {"Ret": [1]}, "Types": {}, "Arguments": {}}')
    assert vocabulary_file("one-hot") == built_in != vocabulary_file(str(own))
