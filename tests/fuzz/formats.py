"""The fuzzed formats: each format of a file or a pipe, with its reader and seeds.

A reader takes bytes and raises only an `MlgoError`, or the corresponding error of `mlgo_clang`. It also evaluates the
lazy parts of the result, so that no damage is found later.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_clang.channel import read_header
from mlgo_gym.corpus.flags import refused_argument
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, parse_command, read_description, read_metadata
from mlgo_gym.corpus.importing import import_parquet
from mlgo_gym.corpus.recording.extract import read_elf_sections
from mlgo_gym.corpus.recording.links import read_links
from mlgo_gym.corpus.recording.object_list import read_object_list
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.recipe import read_recipe
from mlgo_gym.errors import MlgoError, TrainingLogError
from mlgo_gym.evaluation.result_folder import EPISODES, HEADER, MODULES, load_result
from mlgo_gym.llvm.allocation_record import CostWeights, read_allocation_record, read_allocation_remarks
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.training_log import LogDecoder
from mlgo_gym.policies.foreign_model import OnnxPolicy, TflitePolicy, read_model_description
from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.storage.tensors import read_tensors
from tests.fuzz import seeds
from tests.fuzz.seeds import split

TYPED = (MlgoError,)
"""Errors that a reader may raise."""

JSON_TOKENS = (
    *(b"NaN", b"Infinity", b"1e309", b"-1", b"0", b"null", b"true", b"{}", b"[]", b'""', b"1.5", b'"\\ud800"'),
    *(b"9223372036854775808", b"1" * 40, b"[" * 40, b'{"a":' * 20, b'"\\u0000"', b'".."', b'"/"'),
)


FOLDER = "MLGO_FUZZ_FOLDER"
"""Environment variable with the folder of a process, which its parent removes."""


@dataclass(frozen=True, slots=True)
class Format:
    """A fuzzed format: its reader, valid inputs from the real writers, and bytes that mutations insert.

    It needs some modules. Coverage does not see a `native` reader. Inputs have at most `longest` bytes.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    tokens: tuple[bytes, ...] = ()
    needs: tuple[str, ...] = ()
    native: bool = False
    longest: int = 8192


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Return a folder in memory for readers of paths; this process or its parent removes it."""
    given = os.environ.get(FOLDER)
    return Path(given or tempfile.mkdtemp(prefix="mlgo-fuzz-", dir=memory()))


def memory() -> str | None:
    """Return a folder in memory; None without one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def remove_folder() -> None:
    """Remove the folder of this process."""
    if _folder.cache_info().currsize:
        shutil.rmtree(_folder(), ignore_errors=True)
        _folder.cache_clear()


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.parent.mkdir(exist_ok=True)
    # Overwritten: removing it would take longer than most readers.
    path.write_bytes(data)
    return path


@lru_cache(maxsize=1)
def _env() -> CompilerEnv:
    from mlgo_gym.envs import InlineEnv

    return InlineEnv()


def _training_log(data: bytes) -> None:
    # The events and the error do not depend on the size of the pieces.
    assert _events(data, 1 << 20) == _events(data, 1 + len(data) % 61)
    decoder = LogDecoder()
    decoder.feed(data)
    while decoder.next_event() is not None:
        pass


def _events(data: bytes, size: int) -> list[object]:
    decoder, events = LogDecoder(), list[object]()
    try:
        for start in range(0, len(data), size):
            decoder.feed(data[start : start + size])
            while (event := decoder.next_event()) is not None:
                events.append(event)
    except TrainingLogError as error:
        events.append(str(error))
    return events


def _bitcode(data: bytes) -> None:
    facts = parse_bitcode(data, "fuzz.bc")
    assert facts.level
    assert facts.prevailing_level
    assert facts.functions >= max(facts.minsize, facts.optsize, facts.optnone) >= 0


def _wasm(data: bytes) -> None:
    sizes = function_sizes(data)
    assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text == object_sizes(data).text
    assert min([sizes.unnamed, *sizes.functions.values()]) >= 0


def _elf(data: bytes) -> None:
    sizes = object_sizes(data)
    assert sizes.object == len(data)
    assert min(sizes.text, sizes.llvm_size) >= 0
    functions = function_sizes(data)
    assert sum(functions.functions.values()) + functions.unnamed == functions.text == sizes.text


def _record(data: bytes) -> None:
    for name, costs in read_allocation_record(data).items():
        assert isinstance(name, str)
        assert costs.count is not None
        costs.cost(CostWeights())


def _command(data: bytes) -> None:
    refused_argument(parse_command(data, "fuzz.cmd"))


def _model(spec: str, name: str) -> Callable[[bytes], None]:
    return lambda data: _acts(load_policy(f"{spec}:{_file(name, data)}", _env()))


def _acts(policy: Policy) -> None:
    width = len(_env().feature_names)
    for observation in (np.zeros(width, np.float32), np.full(width, 1e30, np.float32)):
        assert policy.act(observation, {}) in (0, 1)


@lru_cache(maxsize=3)
def _process(kind: str) -> ModelProcess:
    """Return the process for all models of a kind; a new one starts after an input that ended it."""
    return ModelProcess(kind, seconds=10.0)


def _results(data: bytes) -> None:
    header, episodes, modules = split(data, 3)
    _file(f"results/{HEADER}", header)
    _file(f"results/{MODULES}", modules)
    result = load_result(_file(f"results/{EPISODES}", episodes).parent)
    assert result.deviations is not None
    assert result.failures is not None
    assert result.without_decisions is not None
    assert result.languages is not None
    for project in (None, *result.projects):
        assert len(result.summaries(project)) <= len(result.policies)


def _recipe(data: bytes) -> None:
    recipe = read_recipe(_file("fuzz.recipe", data))
    assert set(recipe.answers) <= {0, 1}
    assert all(site.functions for site in recipe.actions)
    assert recipe.change > -2


def _tflite(data: bytes) -> None:
    spec, model = split(data, 2)
    _file("tflite/output_spec.json", spec)
    _acts(TflitePolicy(_env(), _file("tflite/model.tflite", model).parent, _process("tflite")))


def _onnx(data: bytes) -> None:
    _acts(OnnxPolicy(_env(), _file("model.onnx", data), _process("onnx")))


def _embedded(data: bytes) -> None:
    bitcode, command = read_elf_sections(_file("fuzz.o", data), (".llvmbc", ".llvmcmd"))
    assert len(bitcode) + len(command) < 1 << 24


def _parquet(data: bytes) -> None:
    path = _file("fuzz.parquet", data)
    result = import_parquet([path], path.with_name("imported"))
    assert len(result.modules) + result.duplicates + len(result.skipped) <= 1 << 16


def _at(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], None]:
    """Return a reader of a folder that contains the bytes as a file."""
    return lambda data: read(_file(f"{name}/{name}", data).parent)


FORMATS = {
    each.name: each
    for each in (
        Format("training-log", _training_log, seeds.training_logs, (b'{"observation":0}\n', *JSON_TOKENS)),
        Format("channel-header", read_header, seeds.headers, JSON_TOKENS, longest=2048),
        Format("bitcode", _bitcode, seeds.bitcode, (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")),
        Format("elf", _elf, seeds.objects, (b"\xff" * 8, b"\x02\0\0\0", b"\x12\0\0\0", b"\xff\xff")),
        Format("wasm", _wasm, seeds.webassembly, (b"\x80\x80\x80\x80\0", b"\xff\xff\xff\xff\x0f", b"\x07linking")),
        Format("optimisation-record", _record, seeds.records, (b"--- !Missed\nPass: regalloc\n", b"nan", b"inf")),
        Format("optimisation-remarks", lambda data: read_allocation_remarks(data.decode(errors="replace")),
               seeds.remarks, (b"nan", b"inf", b"1e999", b" spills ", b" total spills cost ")),
        Format("corpus-description", _at(DESCRIPTION_FILE, read_description), seeds.descriptions, JSON_TOKENS),
        Format("module-metadata", _at("module.json", lambda folder: read_metadata(folder, "module")), seeds.metadata,
               JSON_TOKENS),
        Format("links", _at("links.json", read_links), seeds.links, JSON_TOKENS),
        Format("compile-commands", lambda data: read_object_list(_file("commands.json", data), "json"),
               seeds.compile_commands, JSON_TOKENS),
        Format("linker-parameters", lambda data: read_object_list(_file("parameters", data), "params"),
               seeds.parameters, (b"-o\n", b"'", b'"', b"\\", b".o\n"), longest=256),
        Format("bazel-aquery", lambda data: read_object_list(_file("aquery.json", data), "bazel_aquery"),
               seeds.bazel, JSON_TOKENS),
        Format("command", _command, seeds.commands, (b"-cc1\0", b"-mllvm\0", b"@", b"-load\0", b"-o\0")),
        Format("tensors", lambda data: read_tensors(_file("x", data)), seeds.tensors, JSON_TOKENS, longest=2048),
        Format("network", _model("mlp", "net.safetensors"), seeds.networks, JSON_TOKENS, longest=4096),
        Format("onnx", _onnx, seeds.onnx, needs=("onnx", "onnxruntime"), native=True),
        Format("tflite", _tflite, seeds.tflite, needs=("ai_edge_litert", "flatbuffers"),
               native=True),
        Format("model-description", read_model_description, seeds.model_descriptions, JSON_TOKENS, longest=2048),
        Format("recipe", _recipe, seeds.recipes, (b"mlgo-gym recipe 1\n", b"\n\n", *JSON_TOKENS)),
        Format("results", _results, seeds.results, JSON_TOKENS),
        Format("embedded-bitcode", _embedded, seeds.embedded, (b".llvmbc\0", b"\0\x08\0\0\0\0\0\0", b"\xff" * 8)),
        Format("parquet", _parquet, seeds.parquet, needs=("pyarrow",), native=True),
    )
}  # fmt: skip
"""All formats by name."""
