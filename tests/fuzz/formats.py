"""The fuzzed formats: each format of a file or a pipe, with its reader and seeds.

A reader takes bytes and raises only an `MlgoError`, or the corresponding error of `mlgo_clang`. It also evaluates the
lazy parts of the result, so that no damage is found later.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_clang.errors import ProtocolError
from mlgo_gym import CompilerEnv, Policy, load_policy
from mlgo_gym.compiler.inlining_output import InliningOutput
from mlgo_gym.corpus.flags import refused_argument
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, parse_command, read_description, read_metadata
from mlgo_gym.corpus.recording.links import read_links
from mlgo_gym.episode.attribution.recipe import read_recipe
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import EPISODES, HEADER, MODULES, load_result
from mlgo_gym.llvm.allocation_record import read_allocation_record, read_allocation_remarks
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.llvm.sizes import function_sizes, object_sizes
from mlgo_gym.llvm.training_log import LogDecoder, LogHeader, TensorSpec
from mlgo_gym.storage.tensors import read_tensors
from tests.fuzz import seeds
from tests.fuzz.seeds import split

JSON_TOKENS = (
    *(b"NaN", b"Infinity", b"1e309", b"-1", b"0", b"null", b"true", b"{}", b"[]", b'""', b"1.5", b'"\\ud800"'),
    *(b"9223372036854775808", b"1" * 40, b"[" * 40, b'{"a":' * 20, b'"\\u0000"', b'".."', b'"/"'),
)


VALID = Path(__file__).parent / "valid"
"""Valid inputs: a folder for each format that has them."""

FOUND = Path(__file__).parent / "found"
"""Inputs of former findings: a folder for each format."""

INPUT = "input"
"""File in the temporary folder of a process with the input that it reads."""

SECONDS = 1.0
"""Maximum CPU time of one input, in seconds."""

MEMORY_KIB = 200 * 1000
"""Maximum growth of the peak resident memory by one input."""


@dataclass(frozen=True, slots=True)
class Format:
    """A fuzzed format: its reader, bytes that mutations insert, and valid inputs from the real writers."""

    name: str
    read: Callable[[bytes], object]
    tokens: tuple[bytes, ...] = ()
    write: Callable[[], list[bytes]] = list

    def seeds(self) -> list[bytes]:
        """Return valid inputs."""
        return [*self.write(), *(path.read_bytes() for path in sorted((VALID / self.name).glob("*")))]

    def refuses(self, data: bytes) -> bool:
        """Read an input; return whether the reader raised `MlgoError`.

        Raises:
            AssertionError: the reader took over a second of CPU time, or over 200 MB.
            Exception: any other error of the reader.
        """
        # Sets the peak to the present size (proc(5), `clear_refs`): an earlier one would hide the growth.
        Path("/proc/self/clear_refs").write_text("5")
        start, before = time.process_time(), peak_kib()
        try:
            self.read(data)
            refused = False
        except MlgoError:
            refused = True
        seconds, grown = time.process_time() - start, peak_kib() - before
        assert seconds < SECONDS, f"took {seconds:.1f} s"
        assert grown < MEMORY_KIB, f"took {grown / 1000:.0f} MB"
        return refused


def peak_kib() -> int:
    """Return the largest resident size of this process, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@lru_cache(maxsize=1)
def folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder for readers of paths, which the end of the process removes."""
    return tempfile.TemporaryDirectory(prefix="mlgo-fuzz-", ignore_cleanup_errors=True)


def _file(name: str, data: bytes) -> Path:
    path = Path(folder().name, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)  # overwrites: to remove the file would take longer than most readers
    return path


@lru_cache(maxsize=1)
def _env() -> CompilerEnv:
    from mlgo_gym.envs import InlineEnv

    return InlineEnv()


def _training_log(data: bytes) -> None:
    failure = None
    outcomes = list[list[object]]()
    for size in (1 << 20, 1 + len(data) % 61):
        decoder, events = LogDecoder(), list[object]()
        try:
            for start in range(0, len(data), size):
                decoder.feed(data[start : start + size])
                while (event := decoder.next_event()) is not None:
                    events.append(event)
        except ProtocolError as error:
            failure = error
        outcomes.append([*events, str(failure)])
    # The events and the error do not depend on the size of the pieces.
    assert outcomes[0] == outcomes[1]
    if failure is not None:
        raise failure


def _inlining_output(data: bytes) -> None:
    header = LogHeader(tuple(TensorSpec(name, "int64_t", (1,)) for name in ("callee_users", "node_count")))
    outcomes = []
    for size in (1 << 20, 1 + len(data) % 61):
        output = InliningOutput(follows_code=True)
        for start in range(0, len(data), size):
            output.read(data[start : start + size])
        decision = output.next_decision(bytes(16), header)
        outcomes.append((decision, [*output.expected_calls()], output.copy().callees(), output.messages()))
    assert outcomes[0] == outcomes[1]
    if outcomes[0][0] is None:
        raise MlgoError("expected a context, got none")


def _bitcode(data: bytes) -> None:
    facts = parse_bitcode(data, "fuzz.bc")
    assert all((facts.level, facts.prevailing_level))
    assert facts.functions >= max(facts.minsize, facts.optsize, facts.optnone) >= 0


def _object(data: bytes) -> None:
    sizes, functions = object_sizes(data), function_sizes(data)
    assert sizes.object == len(data)
    assert min(sizes.text, sizes.llvm_size, functions.unnamed, *functions.functions.values()) >= 0
    assert sum(functions.functions.values()) + functions.unnamed == functions.text == sizes.text


def _record(data: bytes) -> None:
    for name, cost in read_allocation_record(data).items():
        assert isinstance(name, str)
        assert isinstance(cost, float)


def _acts(policy: Policy) -> None:
    width = len(_env().feature_names)
    for observation in (np.zeros(width, np.float32), np.full(width, 1e30, np.float32)):
        assert policy.act(observation, {}) in (0, 1)


def _results(data: bytes) -> None:
    for name, part in zip((HEADER, EPISODES, MODULES), split(data, 3), strict=True):
        path = _file(f"results/{name}", part)
    result = load_result(path.parent)
    assert None not in (result.deviations, result.failures, result.without_decisions, result.languages)
    for project in (None, *result.projects):
        assert len(result.summaries(project)) <= len(result.policies)


def _recipe(data: bytes) -> None:
    recipe = read_recipe(_file("fuzz.recipe", data))
    assert set(recipe.answers) <= {0, 1}
    assert all(site.functions for site in recipe.actions)
    assert recipe.change > -2


def _at(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], None]:
    """Return a reader of a folder that contains the bytes as a file."""
    return lambda data: read(_file(f"{name}/{name}", data).parent)


FORMATS = {
    fuzzed.name: fuzzed
    for fuzzed in (
        Format("training-log", _training_log, (b'{"observation":0}\n', *JSON_TOKENS)),
        Format("inlining-output", _inlining_output, (b"define ", b"\n", b"@", b'"', b"}\n", b"00"), seeds.printed_code),
        Format("bitcode", _bitcode, (b"BC\xc0\xde", b"\xde\xc0\x17\x0b"), seeds.bitcode),
        Format("elf", _object, (b"\xff" * 8, b"\x02\0\0\0", b"\x12\0\0\0", b"\xff\xff"), seeds.objects),
        Format("wasm", _object, (b"\x80\x80\x80\x80\0", b"\xff\xff\xff\xff\x0f", b"\x07linking"), seeds.webassembly),
        Format("optimisation-record", _record, (b"--- !Missed\nPass: regalloc\n", b"nan", b"inf")),
        Format("optimisation-remarks", lambda data: read_allocation_remarks(data.decode(errors="replace")),
               (b"nan", b"inf", b"1e999", b" spills ", b" total spills cost ")),
        Format("corpus-description", _at(DESCRIPTION_FILE, read_description), JSON_TOKENS),
        Format("module-metadata", _at("module.json", lambda path: read_metadata(path, "module")), JSON_TOKENS),
        Format("links", _at("links.json", read_links), JSON_TOKENS),
        Format("command", lambda data: refused_argument(parse_command(data, "fuzz.cmd")),
               (b"-cc1\0", b"-mllvm\0", b"@", b"-load\0", b"-o\0")),
        Format("tensors", lambda data: read_tensors(_file("x", data)), JSON_TOKENS),
        Format("network", lambda data: _acts(load_policy(f"mlp:{_file('net.safetensors', data)}", _env())),
               JSON_TOKENS, seeds.networks),
        Format("recipe", _recipe, (b"mlgo-gym recipe 1\n", b"\n\n", *JSON_TOKENS), seeds.recipes),
        Format("results", _results, JSON_TOKENS, seeds.results),
    )
}  # fmt: skip
"""All formats by name."""
