"""Valid inputs of each format, from their real writers: clang, this package, and the libraries of models."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo_gym.episode.attribution.recipe import write_recipe
from mlgo_gym.evaluation.record import FAILED, NO_DECISIONS, EpisodeRecord, ModuleFacts
from mlgo_gym.evaluation.result import EPISODES, HEADER, MODULES, EvaluationResult
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.network import Network, Normalization
from tests.episode.test_recipe import RECIPE, WEIGHTED
from tests.evaluation.runs import configuration, keep, record

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


def _contents(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(Path(folder).iterdir())]


def _compiled(source: str, *flags: str, printed: bool = False) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        result = find_toolchain().run(["-w", "-Oz", "-c", *flags, str(PROGRAMS / source), "-o", f"{folder}/output"])
        assert result.returncode == 0, result.stderr
        return result.stderr.encode() if printed else _contents(folder)[0]


def bitcode() -> list[bytes]:
    """Return bitcode in C, by two levels, and one in LLVM's wrapper."""
    flags = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")
    found = [_compiled("leaf.c", *flags), _compiled("functions.c", *flags, "-Os")]
    header = b"\xde\xc0\x17\x0b" + np.array([0, 20, len(found[0]), 0], "<u4").tobytes()
    return [*found, header + found[0]]


def printed_code() -> list[bytes]:
    """Return clang's output about inlining, with a remark in the middle."""
    code = _compiled(
        "functions.c", "-mllvm", "-print-before=inline", "-mllvm", "-print-before=coro-split", printed=True
    )
    lines = code.splitlines(keepends=True)
    remark = b"a.c:3:4: remark: f00true [-Rpass=inline-ml]\n"
    return [code, b"".join([*lines[: len(lines) // 2], remark, *lines[len(lines) // 2 :]])]


def objects() -> list[bytes]:
    """Return ELF objects of 64 and 32 bits and of both byte orders."""
    triples = ("x86_64-linux-musl", "i386-linux-musl", "aarch64_be-linux-musl", "arm-linux-musleabi")
    return [_compiled("functions.c", f"--target={triple}", "-ffunction-sections") for triple in triples]


def webassembly() -> list[bytes]:
    flags = ("--target=wasm32-unknown-wasip1", "-fno-PIC")
    return [_compiled(source, *flags) for source in ("leaf.c", "calls.c")]


def _networks() -> list[Network]:
    random = np.random.default_rng(0)
    weights = tuple(random.normal(size=shape).astype(np.float32) for shape in ((2, 3), (3, 2)))
    biases = tuple(np.zeros(weight.shape[1], np.float32) for weight in weights)
    rows = random.normal(size=(9, 2))
    normalizations = [None, Normalization.fit(rows, FEATURES)]
    return [Network(FEATURES, weights, biases, "tanh", normalization) for normalization in normalizations]


def networks() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for number, network in enumerate(_networks()):
            network.save(f"{folder}/{number}")
        return _contents(folder)


def recipes() -> list[bytes]:
    """Return recipes of one and of several metrics, and one of the plain compile."""
    with tempfile.TemporaryDirectory() as folder:
        for number, recipe in enumerate((RECIPE, WEIGHTED, replace(RECIPE, actions={}))):
            write_recipe(recipe, f"{folder}/{number}")
        return _contents(folder)


def results() -> list[bytes]:
    """Return the header, the episodes and the modules of an evaluation."""
    episodes = (
        record("default", "m", decisions=3, actions="eJxjAAAAAQAB", seconds=0.5),
        EpisodeRecord("default", "n", "p", NO_DECISIONS),
        EpisodeRecord("always", "m", "p", FAILED, error={"kind": "signal", "message": "crashed"}),
    )
    modules = {name: ModuleFacts(name, "0", None, "C", ("-cc1",)) for name in "mn"}
    with tempfile.TemporaryDirectory() as folder:
        path = keep(EvaluationResult(configuration(modules=2), episodes, modules), Path(folder, "results"))
        return [join(*((path / name).read_bytes() for name in (HEADER, EPISODES, MODULES)))]
