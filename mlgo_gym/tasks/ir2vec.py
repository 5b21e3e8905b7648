"""Vocabularies for LLVM's IR2Vec embeddings, and the built-in one that makes them exact histograms.

An embedding of a function is the sum over its instructions of weighted vocabulary entries: 1 times the opcode's, 0.5
times the type's, 0.2 times each operand's (llvm/lib/Analysis/IR2Vec.cpp). With entries that are one-hot vectors scaled
by the inverse of those weights, it counts: opcodes, result types, kinds of operands and comparison predicates.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import cache_directory, parse_json, write_atomically
from mlgo_gym.errors import MlgoError

SECTIONS = ("Opcodes", "Types", "Arguments")
"""The keys of a vocabulary file; predicates of comparisons count as arguments."""

_OPCODE_WORDS = """
    Ret Br Switch IndirectBr Invoke Resume Unreachable CleanupRet CatchRet CatchSwitch CallBr FNeg Add FAdd Sub FSub Mul
    FMul UDiv SDiv FDiv URem SRem FRem Shl LShr AShr And Or Xor Alloca Load Store GetElementPtr Fence AtomicCmpXchg
    AtomicRMW Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt PtrToAddr IntToPtr BitCast
    AddrSpaceCast CleanupPad CatchPad ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg ExtractElement InsertElement
    ShuffleVector ExtractValue InsertValue LandingPad Freeze
"""
_TYPE_WORDS = """
    FloatTy VoidTy LabelTy MetadataTy VectorTy TokenTy IntegerTy FunctionTy PointerTy StructTy ArrayTy UnknownTy
"""
_ARGUMENT_WORDS = """
    Function Pointer Constant Variable FCMP_false FCMP_oeq FCMP_ogt FCMP_oge FCMP_olt FCMP_ole FCMP_one FCMP_ord
    FCMP_uno FCMP_ueq FCMP_ugt FCMP_uge FCMP_ult FCMP_ule FCMP_une FCMP_true ICMP_eq ICMP_ne ICMP_ugt ICMP_uge ICMP_ult
    ICMP_ule ICMP_sgt ICMP_sge ICMP_slt ICMP_sle
"""

OPCODES = tuple(_OPCODE_WORDS.split())
TYPES = tuple(_TYPE_WORDS.split())
ARGUMENTS = tuple(_ARGUMENT_WORDS.split())
ENTITIES = (*OPCODES, *TYPES, *ARGUMENTS)
"""The entities of clang 22's vocabulary, in the order in which `llvm-ir2vec entities` lists them."""

_MEMBERS = {"Opcodes": (OPCODES, 1.0), "Types": (TYPES, 2.0), "Arguments": (ARGUMENTS, 5.0)}
"""The entities of each section, and the inverse of their weight in an embedding."""


def one_hot_vocabulary() -> dict[str, dict[str, list[float]]]:
    """Return the vocabulary under which component i of an embedding counts `ENTITIES[i]`."""
    return {
        section: {name: [scale * (name == entity) for entity in ENTITIES] for name in names}
        for section, (names, scale) in _MEMBERS.items()
    }


def vocabulary_file(vocabulary: str) -> Path:
    """Return a file with a vocabulary, under a name that its content decides, so that a changed file is a new one.

    Args:
        vocabulary: `"one-hot"`, or the path of a JSON file with the keys of `SECTIONS`.

    Raises:
        MlgoError: the file is not there, or is no vocabulary.
    """
    if vocabulary == "one-hot":
        data = json.dumps(one_hot_vocabulary()).encode()
    else:
        try:
            data = read_untrusted(Path(vocabulary).expanduser())
            content = parse_json(data)
        except (OSError, ValueError) as error:
            raise MlgoError(f'vocabulary must be "one-hot" or a JSON file; {vocabulary}: {error}') from error
        missing = [section for section in SECTIONS if not isinstance(content, dict) or section not in content]
        if missing:
            raise MlgoError(
                f"{vocabulary}: expected a vocabulary with {', '.join(SECTIONS)}, got one without {missing}"
            )
    path = cache_directory() / "vocabularies" / f"{hashlib.sha256(data).hexdigest()}.json"
    if not path.is_file():
        write_atomically(path, data)
    return path
