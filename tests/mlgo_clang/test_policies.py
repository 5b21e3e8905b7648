"""Policies in the driver: decisions, settings, counters and objects."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from mlgo_clang.counters import counters_path, parse
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.network import FORMAT, Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.storage.tensors import format_tensors
from tests.mlgo_clang.conftest import Run
from tests.policies.episodes import eviction_network


def text(path: Path) -> int:
    return object_sizes(path.read_bytes()).text


def test_each_policy_makes_its_own_decisions(run: Run, project: Path, network: Path) -> None:
    sizes = {}
    for policy in ("default", "never", "always", "threshold:-1000", "threshold:30", "threshold:1000", f"mlp:{network}"):
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
        sizes[policy] = text(project / "calls.o")
    assert sizes["threshold:-1000"] == sizes["never"] != sizes["default"]
    assert sizes["threshold:1000"] == sizes["always"] > sizes["default"]
    assert sizes[f"mlp:{network}"] == sizes["threshold:30"]
    assert len(set(sizes.values())) == 3


def test_environment_variables_apply_without_options(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("--mlgo-policy=always", "-Oz", "-c", "calls.c")
    always = (project / "calls.o").read_bytes()
    monkeypatch.setenv("MLGO_POLICY", "always")
    run("-Oz", "-c", "calls.c")
    assert (project / "calls.o").read_bytes() == always
    run("--mlgo-policy=never", "-Oz", "-c", "calls.c")
    assert (project / "calls.o").read_bytes() != always


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_a_policy_decides_only_at_its_levels(run: Run, project: Path, level: str) -> None:
    run("--mlgo-policy=default", level, "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    run("--mlgo-policy=never", level, "-c", "calls.c")
    assert (project / "calls.o").read_bytes() == plain
    run("--mlgo-policy=never", "--mlgo-levels=2,3", level, "-c", "calls.c")
    assert ((project / "calls.o").read_bytes() == plain) == (level == "-O0")


PRESSURE = ("-Os", "-c", "pressure.c")


def environment_of_pressure(project: Path, clang: dict[str, list[str]]) -> RegAllocEvictEnv:
    """The environment of `pressure.c`, which is then in the project too."""
    source = Path(__file__).parent.parent / "programs" / "pressure.c"
    (project / "pressure.c").write_bytes(source.read_bytes())
    bitcode = project / "pressure.bc"
    words = [*clang["gcc"], *PRESSURE, "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", str(bitcode)]
    subprocess.run(words, cwd=project, check=True)
    return RegAllocEvictEnv(corpus=str(bitcode), compile_options={"flags": ["-Os"]})


def test_a_policy_for_evictions_decides_on_them(run: Run, project: Path) -> None:
    source = Path(__file__).parent.parent / "programs" / "pressure.c"
    (project / "pressure.c").write_bytes(source.read_bytes())
    objects = {}
    for policy in ("default", "evict", "first_legal", "never_evict"):
        arguments = ("--mlgo-policy=default", f"--mlgo-eviction-policy={policy}", "--mlgo-strict", "-Os")
        assert run(*arguments, "-c", "pressure.c").returncode == 0
        objects[policy] = (project / "pressure.o").read_bytes()
    assert len(set(objects.values())) > 1
    assert run("--mlgo-policy=never", "--mlgo-eviction-policy=first_legal", "--mlgo-strict", "-Os", "-c", "pressure.c")


def test_a_network_decides_on_evictions_as_in_the_environment(
    run: Run, project: Path, clang: dict[str, list[str]]
) -> None:
    env = environment_of_pressure(project, clang)
    assert isinstance(env.action_space, Discrete)
    choices = int(env.action_space.n)
    names = [*env.feature_names, "action_mask[0]"]
    generator = np.random.default_rng(3)
    weight = generator.normal(size=(len(names), choices)).astype(np.float32)
    normalization = Normalization.fit(
        generator.normal(size=(100, len(names))).astype(np.float32) * 100, names, "signed_log"
    )
    path = project / "evict.safetensors"
    Network(tuple(names), (weight,), (np.zeros(choices, np.float32),), "relu", normalization).save(path)
    policy = load_policy(f"mlp:{path}", env)
    observation, info = env.reset()
    over, actions = False, set()
    while not over:
        action = policy.act(observation, info)
        actions.add(int(action))
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert len(actions) > 2
    chosen = ("--mlgo-policy=default", f"--mlgo-eviction-policy=mlp:{path}", "--mlgo-strict")
    assert run(*chosen, *PRESSURE).returncode == 0
    assert text(project / "pressure.o") == info["text"] != info["baseline_text"]


def test_a_network_that_rates_live_ranges_decides_as_in_the_environment(
    run: Run, project: Path, clang: dict[str, list[str]]
) -> None:
    env = environment_of_pressure(project, clang)
    path = project / "evict.safetensors"
    eviction_network().save(path)
    policy = load_policy(f"mlp:{path}", env)
    observation, info = env.reset()
    over, deviations, count = False, 0, 0
    while not over:
        action = policy.act(observation, info)
        deviations, count = deviations + (action != info["default_action"]), count + 1
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert 0 < deviations <= count
    chosen = ("--mlgo-policy=default", f"--mlgo-eviction-policy=mlp:{path}", "--mlgo-strict")
    assert run(*chosen, *PRESSURE).returncode == 0
    assert text(project / "pressure.o") == info["text"] != info["baseline_text"]


def test_an_untrusted_network_runs_no_code(run: Run, project: Path, own_cache: Path) -> None:
    evil = 'a"; int system(const char *); __attribute__((constructor)) void f(void) { system("touch evil"); } char *b="'
    tensors = {"0.weight": np.zeros((1, 1), np.float32), "0.bias": np.zeros(1, np.float32)}
    metadata = {"format": FORMAT, "features": json.dumps([evil]), "activation": "relu"}
    (project / "net.safetensors").write_bytes(format_tensors(tensors, metadata))
    result = run("--mlgo-policy=mlp:net.safetensors", "--mlgo-strict", "-Os", "-c", "calls.c")
    assert result.returncode == 1
    assert b"expected the name of a feature" in result.stderr
    assert not (project / "evil").exists()


def test_a_network_for_another_task_is_refused(run: Run, project: Path, network: Path) -> None:
    result = run(
        "--mlgo-policy=default", f"--mlgo-eviction-policy=mlp:{network}", "--mlgo-strict", "-Os", "-c", "calls.c"
    )
    assert result.returncode == 1
    assert b"use a network for evictions" in result.stderr


def test_equal_compiles_make_equal_objects(run: Run, project: Path, network: Path) -> None:
    made = set()
    for _ in range(3):
        run(f"--mlgo-policy=mlp:{network}", "-g", "-Oz", "-c", "calls.c")
        made.add((project / "calls.o").read_bytes())
    assert len(made) == 1


def test_the_policys_digest_is_in_the_version(run: Run, network: Path, tmp_path: Path) -> None:
    first = run(f"--mlgo-policy=mlp:{network}", "--version").stdout
    changed = tmp_path / network.name
    data = bytearray(network.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    assert first != run(f"--mlgo-policy=mlp:{changed}", "--version").stdout
    assert first == run(f"--mlgo-policy=mlp:{network}", "--version").stdout


def test_compiles_are_counted(run: Run, own_cache: Path) -> None:
    run("--mlgo-policy=never", "-Oz", "-c", "calls.c")
    run("--mlgo-policy=never", "-Oz", "-c", "calls.c")
    run("--mlgo-policy=never", "-E", "calls.c")
    run("--mlgo-policy=mlp:nowhere", "-Oz", "-c", "calls.c")
    counters = parse(Path(counters_path()).read_bytes())
    assert {name: number for name, number in counters.items() if not name.startswith("because")} == {
        "compiled with a policy": 2,
        "left to clang": 1,
        "compiled by clang alone": 1,
    }


def test_several_processes_count_at_once(own_cache: Path) -> None:
    code = "from mlgo_clang.counters import count\nfor _ in range(50): count('a', 'b')"
    processes = [subprocess.Popen(["python3", "-c", code], cwd=Path(__file__).parents[2]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert parse(Path(counters_path()).read_bytes()) == {"a": 200, "b": 200}


@pytest.mark.parametrize("name", [os.fsdecode(b"\xff.c"), "two\nlines.c", "@ 'q\"$(touch pwned).c"])
def test_a_source_of_any_name_is_compiled(name: str, run: Run, project: Path, own_cache: Path) -> None:
    shutil.copy(project / "calls.c", project / name)
    done = run("--mlgo-policy=never", "-Oz", "-c", f"./{name}", "-o", "it.o")
    assert (done.returncode, done.stderr) == (0, b"")
    missing = os.fsdecode(b"/no\xff\n")
    for _ in range(2):
        done = run(f"--mlgo-policy=mlp:{missing}", "-Oz", "-c", f"./{name}", "-o", "it.o")
        assert done.returncode == 0
        assert b"is compiled by clang alone" in done.stderr
    assert counted()["compiled by clang alone"] == 2
    assert 2 in {count for name, count in counted().items() if name.startswith("because")}
    searching = ("--mlgo-policy=never", f"--mlgo-recipes={os.fsdecode(bytes([0xFE]))}", "--mlgo-search=2")
    assert run(*searching, "-Oz", "-c", f"./{name}", "-o", "it.o").stderr == b""
    assert counted()["searched"] == 1
    # A recipe is a text of lines; the name of its source must fit on one.
    assert counted().get("compiled by a recipe", 0) == ("\n" not in name)
    assert not (project / "pwned").exists()


def counted() -> dict[str, int]:
    return parse(Path(counters_path()).read_bytes())


def test_an_unknown_or_malformed_option_is_refused(run: Run) -> None:
    result = run("--mlgo-polizy=never", "-c", "calls.c")
    assert result.returncode == 1
    assert b"got '--mlgo-polizy=never'" in result.stderr
    assert run("--mlgo-search=many", "-c", "calls.c").returncode == 1
    for seconds in ("soon", "0", "-1", "nan", "inf", "1e9"):
        refused = run(f"--mlgo-timeout={seconds}", "-c", "calls.c")
        assert refused.returncode == 1
        assert b"expected seconds above 0 for --mlgo-timeout" in refused.stderr
    assert run("--mlgo-clang=nowhere", "-c", "calls.c").returncode == 1


def test_other_lines_are_no_counters() -> None:
    assert parse(b"3 a\nno\n-4 b\n5 c d\n\xff\n") == {"a": 3, "c d": 5}


def test_of_several_policies_the_smallest_object_is_kept(run: Run, project: Path) -> None:
    alone = {}
    for policy in ("default", "never", "always", "threshold:30"):
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
        alone[policy] = (text(project / "calls.o"), (project / "calls.o").read_bytes())
    smallest = min(size for size, _ in alone.values())
    assert smallest < alone["always"][0]
    for policies in ("never,always", "always,never", "default,always", "always,threshold:30,default"):
        assert run(f"--mlgo-policy={policies}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
        candidates = [alone[policy] for policy in policies.split(",")]
        assert (project / "calls.o").read_bytes() in [data for size, data in candidates if size == min(candidates)[0]]


@pytest.mark.parametrize("level", [pytest.param("s", marks=pytest.mark.slow), "z"])
def test_smallest_is_never_larger_than_clang_or_the_bundled_policy(level: str, run: Run, project: Path) -> None:
    sizes = {}
    for policy in ("default", "never", "threshold:0", f"inline-o{level}-fast", "smallest"):
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", f"-O{level}", "-c", "calls.c").returncode == 0
        sizes[policy] = text(project / "calls.o")
    assert len(set(sizes.values())) > 1
    assert sizes.pop("smallest") == min(sizes.values())


def test_several_policies_warn_once_and_count_once(run: Run, project: Path, own_cache: Path) -> None:
    (project / "warned.c").write_text("int f(int n) { int unused; return n; }\n")
    assert not own_cache.exists()
    result = run("--mlgo-policy=always,never,default", "-Oz", "-Wall", "-c", "warned.c")
    assert result.returncode == 0
    assert result.stderr.count(b"unused variable") == 1
    assert counted()["compiled with a policy"] == 1


def test_clang_compiles_alone_if_one_of_several_policies_cannot_be_read(run: Run, project: Path) -> None:
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    result = run("--mlgo-policy=always,no-such-policy", "-Oz", "-c", "calls.c")
    assert b"no-such-policy" in result.stderr
    assert (project / "calls.o").read_bytes() == plain
    assert b"expected --mlgo-policy=NAME or a list" in run("--mlgo-policy=,", "-Oz", "-c", "calls.c").stderr


def test_several_policies_need_elf_or_webassembly_objects(run: Run) -> None:
    result = run("--mlgo-policy=always,never", "--target=x86_64-apple-macos", "-Oz", "-c", "calls.c")
    assert result.returncode == 0
    assert b"expected an ELF or WebAssembly object, got calls.o" in result.stderr
