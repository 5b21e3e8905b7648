"""`mlgo/InlineIR2Vec-v0`: whether to inline a call, seeing what caller and callee are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs.inline import InlineTask
from mlgo_gym.episode.argument_types import option
from mlgo_gym.episode.options import InliningOptions
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.feature_table import EMBEDDINGS_TABLE, INLINING_TABLE, FeatureTable
from mlgo_gym.tasks.ir2vec import ARGUMENTS, ENTITIES, OPCODES, TYPES, vocabulary_file
from mlgo_gym.vector_env import CompilerVectorEnv

OLDEST_CLANG = 22
"""Oldest clang with working embeddings; clang 20 and 21 fail or crash with the flags."""


class InlineIR2VecTask(InlineTask):
    """The decisions of LLVM's inliner, with IR2Vec embeddings of caller and callee.

    Args:
        vocabulary: `"one-hot"` or the path of a vocabulary file.
    """

    name: ClassVar[str] = "inlining"
    tables: ClassVar[tuple[FeatureTable, ...]] = (INLINING_TABLE, EMBEDDINGS_TABLE)

    def __init__(self, vocabulary: str) -> None:
        self._vocabulary = vocabulary

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return the flags that switch embeddings on.

        Raises:
            ToolchainError: the compiler is older than clang 22.
            MlgoError: the vocabulary cannot be read.
        """
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
            kinds = {
                **dict.fromkeys(OPCODES, "opcode"),
                **dict.fromkeys(TYPES, "type"),
                **dict.fromkeys(ARGUMENTS, "operand"),
            }
            readable = {
                f"{side}_embedding[{position}]": f"{side}_{kinds[entity]}_{entity}"
                for side in ("callee", "caller")
                for position, entity in enumerate(ENTITIES)
            }
            self.feature_names = tuple(readable.get(name, name) for name in self.feature_names)


@dataclass(frozen=True, slots=True)
class InlineIR2VecOptions(InliningOptions):
    """The arguments of `mlgo/InlineIR2Vec-v0`."""

    vocabulary: str = option(
        "one-hot",
        """Vocabulary of the embeddings: `"one-hot"`, or a JSON file with the keys `Opcodes`, `Types` and `Arguments`,
        each a mapping from an entity of `llvm-ir2vec entities` to a list of numbers of one length.""",
    )

    @property
    def task_arguments(self) -> dict[str, Any]:
        """The vocabulary."""
        return {"vocabulary": self.vocabulary}


class InlineIR2VecEnv(CompilerEnv):
    """Decide, call by call, whether clang inlines, with embeddings of caller and callee.

    `mlgo/Inline-v0` with two more features: embeddings of the current code of caller and callee by LLVM's IR2Vec, from
    a vocabulary. It needs clang 22 or newer.

    ## Observation space

    That of `mlgo/Inline-v0`, and `callee_embedding` and `caller_embedding`, each `float32` of shape `(D,)`. With the
    built-in vocabulary, `vocabulary="one-hot"`, D is 110 and they are exact histograms: numbers of instructions by
    opcode and by result type, of operands by kind, and of comparisons by predicate. `feature_names` has readable names
    such as `callee_opcode_Load`.

    Actions, rewards, start, end, infos and the other arguments are those of `mlgo/Inline-v0`.
    """

    task_type = InlineIR2VecTask
    options_type = InlineIR2VecOptions


class InlineIR2VecVectorEnv(CompilerVectorEnv):
    """`InlineIR2VecEnv` many times over: see `CompilerVectorEnv`."""

    env_type = InlineIR2VecEnv
