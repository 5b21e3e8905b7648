"""`mlgo/InlineIR2Vec-v0`: whether to inline a call, seeing what caller and callee are made of.

An embedding of a function is the sum over its instructions of weighted vocabulary entries: 1 times the opcode's, 0.5
times the type's, 0.2 times each operand's (llvm/lib/Analysis/IR2Vec.cpp). With entries that are one-hot vectors scaled
by the inverse of those weights, it counts: opcodes, result types, kinds of operands and comparison predicates.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import cache_directory, parse_json, write_atomically
from mlgo_gym.envs.inline import InlineTask, InliningEnv
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.features import EMBEDDINGS_TABLE, ENTITIES, ENTITY_KINDS, INLINING_TABLE, FeatureTable
from mlgo_gym.vector_env import CompilerVectorEnv

OLDEST_CLANG = 22
"""Oldest clang with working embeddings; clang 20 and 21 fail or crash with the flags."""


_SECTIONS = {"Opcodes": ("opcode", 1.0), "Types": ("type", 2.0), "Arguments": ("operand", 5.0)}
"""The kind of entities of each section of a vocabulary file, and the inverse of their weight in an embedding.

Predicates of comparisons count as arguments.
"""


def one_hot_vocabulary() -> dict[str, dict[str, list[float]]]:
    """Return the vocabulary under which component i of an embedding counts `ENTITIES[i]`."""
    return {
        section: {name: [scale * (name == entity) for entity in ENTITIES] for name in ENTITY_KINDS[kind]}
        for section, (kind, scale) in _SECTIONS.items()
    }


def vocabulary_file(vocabulary: str) -> Path:
    """Return a file with a vocabulary, under a name that its content decides, so that a changed file is a new one."""
    if vocabulary == "one-hot":
        data = json.dumps(one_hot_vocabulary()).encode()
    else:
        try:
            data = read_untrusted(Path(vocabulary).expanduser())
            content = parse_json(data)
        except (OSError, ValueError) as error:
            raise MlgoError(f'vocabulary must be "one-hot" or a JSON file; {vocabulary}: {error}') from error
        missing = [section for section in _SECTIONS if not isinstance(content, dict) or section not in content]
        if missing:
            raise MlgoError(
                f"{vocabulary}: expected a vocabulary with {', '.join(_SECTIONS)}, got one without {missing}"
            )
    path = cache_directory() / "vocabularies" / f"{hashlib.sha256(data).hexdigest()}.json"
    if not path.is_file():
        write_atomically(path, data)
    return path


class InlineIR2VecTask(InlineTask):
    """The decisions of LLVM's inliner, with IR2Vec embeddings of caller and callee."""

    name: ClassVar[str] = "inlining"
    tables: ClassVar[tuple[FeatureTable, ...]] = (INLINING_TABLE, EMBEDDINGS_TABLE)

    def __init__(self, vocabulary: str) -> None:
        self._vocabulary = vocabulary

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the flags that switch embeddings on; raise `ToolchainError` before clang 22."""
        if toolchain.version[0] < OLDEST_CLANG:
            raise ToolchainError(
                f"expected clang {OLDEST_CLANG} or newer for embeddings, got {toolchain.command[0]} "
                f"{toolchain.version_text}; use mlgo/Inline-v0, or the bundled compiler"
            )
        path = vocabulary_file(self._vocabulary)
        return ("-mllvm", f"-ml-inliner-ir2vec-vocab-file={path}", "-mllvm", f"-ir2vec-vocab-path={path}")

    def _bind(self, observation: str) -> None:
        super()._bind(observation)
        if self._vocabulary == "one-hot":
            kinds = {entity: kind for kind, names in ENTITY_KINDS.items() for entity in names}
            readable = {
                f"{side}_embedding[{position}]": f"{side}_{kinds[entity]}_{entity}"
                for side in ("callee", "caller")
                for position, entity in enumerate(ENTITIES)
            }
            self.feature_names = tuple(readable.get(name, name) for name in self.feature_names)


class InlineIR2VecEnv(InliningEnv):
    """Decide, call by call, whether clang inlines, with embeddings of caller and callee.

    `mlgo/Inline-v0` with two more features: embeddings of the current code of caller and callee by LLVM's IR2Vec, from
    a vocabulary. It needs clang 22 or newer.

    ## Observation space

    That of `mlgo/Inline-v0`, and `callee_embedding` and `caller_embedding`, each `float32` of shape `(D,)`. With the
    built-in vocabulary, `vocabulary="one-hot"`, D is 110 and they are exact histograms: numbers of instructions by
    opcode and by result type, of operands by kind, and of comparisons by predicate. `feature_names` has readable names
    such as `callee_opcode_Load`.

    Actions, rewards, start, end, infos and the other arguments are those of `mlgo/Inline-v0`.

    Args:
        vocabulary: Vocabulary of the embeddings: `"one-hot"`, or a JSON file with the keys `Opcodes`, `Types` and
            `Arguments`, each a mapping from an entity of `llvm-ir2vec entities` to a list of numbers of one length.
    """

    task_type = InlineIR2VecTask

    def __init__(self, *, vocabulary: str = "one-hot", **arguments: Any) -> None:
        super().__init__(vocabulary=vocabulary, **arguments)


class InlineIR2VecVectorEnv(CompilerVectorEnv):
    """`InlineIR2VecEnv` many times over: see `CompilerVectorEnv`."""

    env_type = InlineIR2VecEnv
