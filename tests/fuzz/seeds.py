"""Valid inputs of each format, from their real writers: clang, this package, and the libraries of models."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.episode.attribution.recipe import Recipe, write_recipe
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.record import DONE, FAILED, NO_DECISIONS, EpisodeRecord
from mlgo_gym.extras import library
from mlgo_gym.llvm.tensor_spec import TensorSpec
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.llvm.training_log import LogHeader, LogWriter
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import METHODS, Normalization
from mlgo_gym.storage.tensors import format_tensors

PROGRAMS = Path(__file__).parents[1] / "programs"
FEATURES = ("cost_estimate", "callee_users")
MARK = b"\n=====\n"
"""Mark between the files of an input of several files."""


def join(*parts: bytes) -> bytes:
    """Return several files as one input."""
    return MARK.join(parts)


def split(data: bytes, count: int) -> list[bytes]:
    """Return the files of an input; missing ones are empty."""
    parts = data.split(MARK, count - 1)
    return parts + [b""] * (count - len(parts))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mlgo-seeds-") as folder:
        yield Path(folder)


@lru_cache(maxsize=1)
def _toolchain() -> Toolchain:
    return find_toolchain()


def _compiled(source: str, *flags: str) -> bytes:
    with _scratch() as folder:
        output = folder / "output"
        command = ["-w", "-Oz", "-c", *flags, str(PROGRAMS / source), "-o", str(output)]
        result = _toolchain().run(command)
        assert result.returncode == 0, result.stderr
        return output.read_bytes()


def training_logs() -> list[bytes]:
    """Return a log of two contexts, and headers alone."""
    specs = (TensorSpec("a", "int64_t", (1,)), TensorSpec("b", "float", (2, 3)))
    stream = io.BytesIO()
    log = LogWriter(stream, LogHeader(specs))
    for context in ("", "f"):
        log.context(context)
        for number in range(2):
            log.observation(np.arange(4 + 12 * number, 36 + 12 * number, dtype=np.uint8).tobytes())
    return [stream.getvalue(), *headers()]


def headers() -> list[bytes]:
    """Return the headers of channels, as clang writes them."""
    specs = tuple(TensorSpec(name, "int64_t", (1,)) for name in ("a", "b", "inlining_default"))
    mask = (TensorSpec("mask", "int64_t", (1, 33)), TensorSpec("weight", "float", (1, 33)))
    advice = TensorSpec("advice", "int64_t", (1,))
    return [
        json.dumps(LogHeader(features, advice).to_json(), separators=(",", ":")).encode() + b"\n"
        for features in (specs, mask)
    ]


def bitcode() -> list[bytes]:
    """Return bitcode in C, by two levels, and one in LLVM's wrapper."""
    flags = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")
    found = [_compiled("leaf.c", *flags), _compiled("functions.c", *flags, "-Os")]
    header = b"\xde\xc0\x17\x0b" + np.array([0, 20, len(found[0]), 0], "<u4").tobytes()
    return [*found, header + found[0]]


def objects() -> list[bytes]:
    """Return ELF objects of 64 and 32 bits and of both byte orders."""
    triples = ("x86_64-linux-musl", "i386-linux-musl", "aarch64_be-linux-musl", "arm-linux-musleabi")
    return [_compiled("functions.c", f"--target={triple}", "-ffunction-sections") for triple in triples]


def webassembly() -> list[bytes]:
    """Return objects of WebAssembly."""
    flags = ("--target=wasm32-unknown-wasip1", "-fno-PIC")
    return [_compiled(source, *flags) for source in ("leaf.c", "calls.c")]


def embedded() -> list[bytes]:
    """Return objects with bitcode in a section of theirs."""
    return [_compiled("calls.c", "-Xclang", "-fembed-bitcode=all")]


def parquet() -> list[bytes]:
    """Return tables of a module and a row that is none, plain and packed."""
    arrow, parquet = (library(name, "a table", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    content = [bitcode()[0], b"no module"]
    columns = {"content": content, "language": ["c", "c++"], "size": [1, 2], "licences": [["MIT", "ISC"], []]}
    found = []
    for compression in ("none", "zstd", "snappy", "gzip"):
        stream = io.BytesIO()
        options = {"use_dictionary": compression != "zstd", "write_statistics": False}
        parquet.write_table(arrow.table(columns), stream, compression=compression, **options)
        found.append(stream.getvalue())
    return found


def records() -> list[bytes]:
    """Return an optimisation record of register allocation, as clang writes it, cut to some remarks."""
    with _scratch() as folder:
        record = folder / "record.yaml"
        _compiled("spills.c", "-O2", f"-foptimization-record-file={record}", "-foptimization-record-passes=regalloc")
        text = record.read_bytes()
    documents = text.split(b"--- ")
    return [b"--- ".join(documents[:4]), b"--- ".join([b"", *documents[-2:]])]


def remarks() -> list[bytes]:
    """Return clang's remarks about register allocation."""
    flags = ("-O2", "-Rpass-missed=regalloc", "-Rpass-analysis=prologepilog", "-fno-caret-diagnostics")
    with _scratch() as folder:
        command = ["-c", *flags, str(PROGRAMS / "spills.c"), "-o", str(folder / "o")]
        text = _toolchain().run(command).stderr
    lines = text.encode() if isinstance(text, str) else text
    return [b"\n".join(lines.splitlines()[:12]) + b"\n", b"\n".join(lines.splitlines()[-6:]) + b"\n"]


def descriptions() -> list[bytes]:
    """Return descriptions as LLVM's mlgo-utils and this package write them."""
    plain = {"global_command_override": ["-cc1", "-O2"], "has_thinlto": False, "modules": ["a", "lib/x.o"]}
    return [json.dumps(each).encode() for each in (plain, {**plain, "has_thinlto": True, "extra": {"a": [1]}})]


def metadata() -> list[bytes]:
    """Return the metadata of a module."""
    known = {"source": "a.c", "source_sha256": "0" * 64, "project": "p", "lines": 12, "inputs": ["profile"]}
    return [json.dumps(known, indent=2).encode()]


def links() -> list[bytes]:
    """Return the link of a program of an object, an archive and a library."""
    part = {"name": "a.o", "module": "a.o", "file": None, "sha256": "0" * 64}
    kept = {"name": "b.o", "module": None, "file": "links/b.o", "sha256": "1" * 64}
    inputs = [
        {"position": 2, "named": "a.o", "kind": "object", "parts": [part]},
        {"position": 3, "named": "l.a", "kind": "archive", "parts": [part, kept]},
        {"position": 4, "named": "l.so", "kind": "shared", "parts": [], "link": "l.so"},
    ]
    output = {"path": "p", "sha256": "2" * 64, "position": 1, "named": "p"}
    link = {"output": output, "driver": "c", "lto": None, "folder": ".", "inputs": inputs}
    return [json.dumps({"native": False, "links": [{**link, "arguments": ["-o", "p", "a.o", "l.a", "l.so"]}]}).encode()]


def compile_commands() -> list[bytes]:
    """Return compilation databases with `arguments` and with `command`."""
    entry = {"directory": "/b", "file": "a.c", "arguments": ["cc", "-c", "a.c", "-o", "a.o"]}
    other = {"directory": "/b", "file": "b.c", "command": "cc -c 'b c.c' -o\"b.o\" -ofoo.o"}
    return [json.dumps([entry, other, entry]).encode()]


def parameters() -> list[bytes]:
    """Return a linker's parameter file."""
    return [b"-o\nbin/p\na.o\nlib/b.o\n'c d.o'\n-lm\n/abs/e.o\n"]


def bazel() -> list[bytes]:
    """Return output of `bazel aquery --output=jsonproto`."""
    actions = [{"mnemonic": "CppCompile"}, {"mnemonic": "CppLink", "arguments": ["ld", "-o", "p", "a.o", "b/c.o"]}]
    return [json.dumps({"actions": actions}).encode()]


def commands() -> list[bytes]:
    """Return `.cmd` files."""
    words = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz", "-mllvm", "-inline-threshold=3"]
    return [b"".join(word.encode() + b"\0" for word in chosen) for chosen in (words, words[:2])]


def _networks() -> list[Network]:
    random = np.random.default_rng(0)
    weights = tuple(random.normal(size=shape).astype(np.float32) for shape in ((2, 3), (3, 2)))
    biases = tuple(np.zeros(weight.shape[1], np.float32) for weight in weights)
    rows = random.normal(size=(9, 2))
    normalizations = [None, *(Normalization.fit(rows, FEATURES, method) for method in METHODS)]
    return [Network(FEATURES, weights, biases, "tanh", normalization) for normalization in normalizations]


def networks() -> list[bytes]:
    """Return networks with and without a normalization."""
    with _scratch() as folder:
        for number, network in enumerate(_networks()):
            network.save(folder / str(number))
        return [path.read_bytes() for path in sorted(folder.iterdir())]


def tensors() -> list[bytes]:
    """Return safetensors files that are no networks."""
    return [format_tensors({"x": np.zeros((2, 3), np.float16), "y": np.zeros(0, np.int64)}, {"a": "b"})]


def onnx() -> list[bytes]:
    """Return linear models, and exported networks."""
    from mlgo_gym.deploy.onnx_model import onnx_model
    from tests.policies.linear_models import write_onnx

    with _scratch() as folder:
        write_onnx(folder / "a", dict.fromkeys(FEATURES, 0.5), 0.1)
        written = (folder / "a").read_bytes()
    return [written, *(onnx_model("network", network) for network in _networks())]


def tflite() -> list[bytes]:
    """Return exported networks behind the name of the output that decides."""
    from mlgo_gym.deploy.tflite_export import output_spec, tflite_model
    from tests.policies.linear_models import linear

    exported = [tflite_model("network", network) for network in (linear({FEATURES[0]: 0.5}, 0.1), *_networks())]
    # Logarithms are a table of 128 kB.
    return [join(output_spec().encode(), model) for model in exported if len(model) < 4096]


def model_descriptions() -> list[bytes]:
    """Return descriptions of models from their process."""
    inputs = [("action_cost_estimate:0", [1], "int64"), ("more", [None, 3], "float32")]
    return [json.dumps([inputs, [("decision:0", [1], "int64"), ("text", [], "object")]]).encode()]


def recipes() -> list[bytes]:
    """Return a recipe, and one of the plain compile."""
    recipe = Recipe(
        "lib/a b.o",
        "0" * 64,
        "22.1.8",
        ("-cc1", "-Oz"),
        90,
        100,
        {DecisionSite("f", 0, 0): 0, DecisionSite("f", 0, 1): 1, DecisionSite("g, h", 1, 0): 0},
        50,
    )
    found = []
    with _scratch() as folder:
        for each in (recipe, replace(recipe, actions={})):
            write_recipe(each, folder / "recipe")
            found.append((folder / "recipe").read_bytes())
    return found


def results() -> list[bytes]:
    """Return the header and the lines of an evaluation."""
    configuration = Configuration(
        "mlgo/Inline-v0", {}, "text", "c", 2, "0" * 64, {"c": {"Oz": 2}}, "22.1.8", "0.1.0", 0, {"default": "d"}
    )
    metrics = {"text": (90.0, 100.0), "object": (900.0, 1000.0)}
    episodes = [
        EpisodeRecord("default", "m", "p", DONE, metrics, 0.1, 3, 0, 0, "eJxjAAAAAQAB", 0.5),
        EpisodeRecord("default", "n", "p", NO_DECISIONS),
        EpisodeRecord("always", "m", "p", FAILED, error={"kind": "signal", "message": "crashed"}),
    ]
    lines = b"".join(json.dumps(episode.to_json()).encode() + b"\n" for episode in episodes)
    facts = [{"module": name, "digest": "0", "source": None, "language": "C", "flags": ["-cc1"]} for name in "mn"]
    modules = b"".join(json.dumps(each).encode() + b"\n" for each in facts)
    return [join(json.dumps(configuration.to_json()).encode(), lines, modules)]
