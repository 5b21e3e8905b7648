"""Targets: named corpora, bare bitcode, datasets, recordings, episodes and programs of other machines."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from benchmarks.exactness import replayed
from mlgo_clang.channel import WASM_SIZE_LIMIT
from mlgo_clang.object_size import WASM_MAGIC
from mlgo_gym import CorpusError, MlgoError, open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.driver import DEFAULT_TARGET, TARGETS, target_of_triple
from mlgo_gym.corpus.recording.links import read_links, relink
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder
from tests.conftest import MakeBitcode, write_files
from tests.corpus.conftest import record
from tests.fakes.drive import run
from tests.ways_to_answer import INLINE, make

SLOW = [name for name in TARGETS if name not in (DEFAULT_TARGET, "thumbv7em")]
ELF = {"aarch64-linux": (183, True), "riscv64gc": (243, True), "riscv32imc": (243, False), "thumbv7em": (40, False)}


@pytest.mark.parametrize("name", ["thumbv7em", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_an_episode_with_the_default_choices_has_the_object_of_plain_clang(name: str) -> None:
    for other in TARGETS.values():
        libc, kernel = (bundled_folder() / "lib/libc/include" / folder for folder in other.headers)
        assert (libc.is_dir(), kernel.is_dir()) == (True, not other.is_webassembly)
    with gym.make("mlgo/Inline-v0", corpus=f"builtin@Oz@{name}", credit=True) as env:
        compiler: Any = env.unwrapped
        assert compiler.corpus.name == f"builtin@Oz@{name}"
        target, module = TARGETS[name], compiler.corpus.module("c/btree")
        assert read_bitcode(module.bitcode).triple == target.triple
        assert module.flags[module.flags.index("-triple") + 1] == target.triple
        assert target_of_triple(target.triple) == target
        assert (module.flags[module.flags.index("-mrelocation-model") + 1] == "pic") == ("-fPIC" in target.flags)
        assert {name for name in TARGETS if "-fPIC" in TARGETS[name].flags} == {DEFAULT_TARGET, *list(ELF)[:2]}
        info = run(env, module="c/btree")[1].info
    assert info["text"] == info["baseline_text"] > 0
    assert info["object"] == info["baseline_object"]
    assert sum(info["function_sizes"].functions.values()) + info["function_sizes"].unnamed == info["text"]
    assert sum(info["credit"]) == 0


@pytest.mark.slow
def test_bare_bitcode_is_compiled_for_the_chosen_target(toolchain: Toolchain, tmp_path: Path) -> None:
    module = open_corpus("builtin@Os@riscv32imc", toolchain=toolchain).module("c/btree")
    shutil.copyfile(module.bitcode, tmp_path / "btree.bc")
    sizes = []
    for corpus, name, target in (("builtin@Os@riscv32imc", "c/btree", None), (str(tmp_path), "btree", "riscv32imc")):
        with gym.make("mlgo/Inline-v0", corpus=corpus, target=target, max_decisions=1) as env:
            _, info = env.reset(options={"module": name})
            *_, info = env.step(info["default_action"])
        sizes.append((info["text"], info["baseline_text"]))
    assert sizes[0] == sizes[1]
    other = gym.make("mlgo/Inline-v0", corpus=str(tmp_path), target="wasm32-wasi")
    with other, pytest.raises(CorpusError, match=r"expected bitcode for wasm32-wasi, got \w+-unknown-linux-musl"):
        other.reset()


def test_webassembly_has_its_own_size_limit_unless_flags_do(toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    env = make(INLINE, str(make_bitcode("vectors.c", triple=TARGETS["wasm32-wasi"].triple)))
    module = next(iter(env.corpus))
    limit = ("-mllvm", "-ml-advisor-size-increase-threshold=2")
    compilation = env.compilation(module)
    assert compilation.flags[-2:] == ("-mllvm", WASM_SIZE_LIMIT)
    again = plan(replace(module, flags=compilation.flags), toolchain)
    assert again.flags.count(WASM_SIZE_LIMIT) == 1
    plain, decided, requests = replayed(compilation, env.task)
    assert (decided, requests) == (plain, 18)
    for limited in (plan(module, toolchain, limit), plan(replace(module, flags=("-Oz", *limit)), toolchain)):
        assert WASM_SIZE_LIMIT not in limited.flags
        limited_plain, larger, fewer = replayed(limited, env.task)
        assert limited_plain == plain
        assert (len(larger) > len(plain), fewer) == (True, 4)
    other = plan(Module("vectors", make_bitcode("vectors.c", triple=TARGETS["aarch64-linux"].triple)), toolchain)
    assert not any("threshold" in flag for flag in other.flags)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["RegAllocEvict", "RegAllocPriority"])
def test_register_allocation_decides_for_machines_with_registers(task: str) -> None:
    with gym.make(f"mlgo/{task}-v0", corpus="builtin@O2@thumbv7em", max_decisions=5) as env:
        assert not run(env, module="kernels/dct")[1].info["error"]
    other = gym.make(f"mlgo/{task}-v0", corpus="builtin@O2@wasm32-wasi")
    with other, pytest.raises(MlgoError, match=r"expected a target with registers for .*, got wasm32-unknown-wasip1"):
        other.reset(options={"module": "kernels/dct"})


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ELF, "wasm32-wasi"])
def test_a_cross_build_is_recorded_and_linked_for_its_target(name: str, toolchain: Toolchain, tmp_path: Path) -> None:
    sources = {
        "f.c": "int f(int x) { return x * 3; }\nint g(int x) { return f(x) + f(x + 1); }\n",
        "start.c": "int g(int); void _start(void) { g(1); }\n",
    }
    project = write_files(tmp_path / "project", sources)
    own = "--target=thumbv7em-none-eabi -mcpu=cortex-m4" if name == "thumbv7em" else ""
    script = f"$CC {own} -Os -c f.c && $CC -Os -c start.c && $CC {own} -nostdlib -static f.o start.o -o program"
    build = record(project, script, toolchain, optimize="Oz", target=name)
    assert (build.status, build.failures, build.modules) == (0, (), ("f.o", "start.o"))
    assert read_bitcode(build.corpus / "start.o.bc").triple == TARGETS[name].triple
    (link,) = read_links(build.corpus)
    assert link.target == name
    objects = {}
    for module in open_corpus(build.corpus, toolchain=toolchain):
        objects[module.name] = tmp_path / module.name
        with plan(module, toolchain).session() as session:
            objects[module.name].write_bytes(session.finish(60).object_bytes)
    relink(link, build.corpus, objects, tmp_path / "linked", toolchain)
    for file in (project / "f.o", tmp_path / "linked"):
        data = file.read_bytes()
        if name in ELF:
            assert (read_elf(data).machine, read_elf(data).wide) == ELF[name]
        else:
            assert data[:4] == WASM_MAGIC
        assert object_sizes(data).text > 0
