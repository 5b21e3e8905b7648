"""Fixtures: the drivers as a build calls them, the underlying clang, and networks."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import read_counters
from mlgo_clang.files import scratch_parent
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.policies.network import Network

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

SEVERAL = "never,threshold:0,default,last-call"
"""Policies of which the smallest object is kept."""

DRIVERS = {"gcc": Path(sys.executable).parent / "mlgo-clang", "g++": Path(sys.executable).parent / "mlgo-clang++"}


def counted(name: str) -> int:
    """Return a count of `mlgo-clang`, 0 without counters."""
    return read_counters().get(name, 0)


def text(path: Path) -> int:
    """Return the bytes of instructions of an object."""
    return object_sizes(path.read_bytes()).text


def facts_of_all(path: Path, *names: str) -> None:
    """Write link facts by which these functions are of one object."""
    LinkFacts(dict.fromkeys(names, (1, 2)), frozenset({"a.cpp"}), uses=dict.fromkeys(names, "own")).write(path)


def channels(driver: int) -> list[Path]:
    """Return the folders of channels that this driver has made."""
    return list(Path(scratch_parent()).glob(f"mlgo-clang-{driver}-*"))


def files(project: Path) -> list[str]:
    return sorted(path.name for path in project.iterdir())


def write_network(path: Path, feature: str, weight: float, bias: float) -> str:
    """Write a network of one feature, which inlines where its output is above 0; return its policy."""
    Network((feature,), (np.array([[weight]], np.float32),), (np.array([bias], np.float32),)).save(path)
    return f"mlp:{path}"


@pytest.fixture(scope="session")
def clang(cache: Path) -> dict[str, list[str]]:
    """The words that start the underlying clang, by mode."""
    return {mode: compiler_command("bundled", mode) for mode in DRIVERS}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Folder with a program whose calls clang requests decisions about."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calls.c").write_text(
        "static int sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n; return s; }\n"
        "static int twice(int n) { return sum(n) + sum(n + 1); }\n"
        "int first(int n) { return twice(n) + sum(n) + twice(2); }\n"
        "int second(int n) { return twice(n) > 3; }\n"
    )
    return folder


@pytest.fixture
def run(project: Path) -> Run:
    """Return a function that runs a driver in the project's folder, with further environment variables."""

    def call(
        *arguments: str, before: Sequence[str | Path] = (), **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        command = [*map(str, before), str(DRIVERS["gcc"]), *arguments]
        return subprocess.run(command, cwd=project, env={**os.environ, **variables}, capture_output=True, check=False)

    return call


@pytest.fixture
def plain(run: Run, project: Path) -> bytes:
    """The object that clang alone compiles."""
    assert run("--mlgo-policy=default", "-Oz", "-c", "calls.c", "-o", "plain.o").returncode == 0
    data = (project / "plain.o").read_bytes()
    (project / "plain.o").unlink()
    return data


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that inlines calls with an estimated cost below 30."""
    path = tmp_path_factory.mktemp("network") / "small.safetensors"
    write_network(path, "cost_estimate", -1, 30)
    return path


@pytest.fixture(scope="session")
def always(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network with a callee feature that inlines every call: it compiles in two steps."""
    return write_network(tmp_path_factory.mktemp("network") / "always.safetensors", "callee_lines", 0, 1)
