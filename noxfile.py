"""Compatibility tests: `make compatibility` or `nox` runs all, `nox -s 'suite-3.12(lowest-direct)'` runs one.

`suite` runs the tests on each installed Python with the lowest and the highest versions that `pyproject.toml` allows.
`clang` runs the tests of compilers with each clang from 17 to 22: those in wheels of ziglang, and the distribution's
where they are installed. Arguments after `--` select tests; `-- core` selects those of the engine. Each session writes
its versions and its result to build/compatibility; .ci/compatibility.py prints them as a table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False

# pyenv's shims fail for a Python that is installed and not selected: its programs are found directly.
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
os.environ["PATH"] = os.pathsep.join([*map(str, sorted(_PYENV.glob("3.*/bin"))), os.environ["PATH"]])

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
WHEELS = {"17": "0.12.1", "18": "0.13.0", "19": "0.14.1", "20": "0.15.2", "21": "0.16.0", "22": "0.17.0"}
"""Version of the ziglang wheel with each version of clang."""

DISTRIBUTIONS = ["clang-17", "clang-18", "clang-19", "clang-20", "clang-21", "clang-22"]

CORE = [
    *("tests/test_env.py", "tests/test_vector_env.py"),
    *("tests/cli", "tests/envs", "tests/episode", "tests/evaluation"),
    *("tests/policies", "tests/integrations", "tests/storage", "tests/tasks"),
]
"""The tests that `core` selects: those of the engine."""

RESULTS = Path("build/compatibility").absolute()

VERSIONS = """
import importlib.metadata, json, platform, sys
from mlgo_gym.llvm.toolchain import find_toolchain
known = {name: importlib.metadata.version(name) for name in ("gymnasium", "numpy", "ziglang")}
known |= {"python": platform.python_version(), "clang": find_toolchain(sys.argv[1]).version_text}
print(json.dumps(known))
"""


def _test(session: nox.Session, label: str, clang: str, *arguments: str) -> None:
    """Run tests and write their versions and results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    python = "python" if session.virtualenv.is_sandboxed else sys.executable
    versions = session.run(python, "-c", VERSIONS, clang, silent=True)
    known = json.loads(str(versions).strip().splitlines()[-1])
    known["tests"] = " ".join(session.posargs) or "all"
    (RESULTS / f"{label}.json").write_text(json.dumps(known) + "\n")
    report = RESULTS / f"{label}.xml"
    report.unlink(missing_ok=True)
    chosen = CORE if session.posargs == ["core"] else session.posargs
    session.run(python, "-m", "pytest", "-q", f"--junitxml={report}", *arguments, *chosen)


@nox.session(python=PYTHONS)
@nox.parametrize("resolution", ["lowest-direct", "highest"], ids=["lowest-direct", "highest"])
def suite(session: nox.Session, resolution: str) -> None:
    """Run the tests with the lowest or the highest versions of the requirements."""
    session.install("uv")
    index = subprocess.run(["pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    known = index.stdout.strip()  # uv does not read pip's configuration
    python = str(Path(session.bin) / "python")
    words = ["uv", "pip", "install", "--quiet", "--python", python, "--resolution", resolution, "--editable", ".[test]"]
    session.run(*words, env={"UV_DEFAULT_INDEX": known} if known else {})
    _test(session, f"suite-{session.python}-{resolution}", "bundled")


@nox.session(venv_backend="none")
@nox.parametrize("compiler", [*(f"wheel-{version}" for version in WHEELS), *DISTRIBUTIONS])
def clang(session: nox.Session, compiler: str) -> None:
    """Run the tests of compilers with another clang, in nox's own environment."""
    program = Path(compiler)
    if compiler.startswith("wheel-"):
        program = _of_a_wheel(session, compiler.removeprefix("wheel-"))
    elif shutil.which(compiler) is None:
        session.skip(f"{compiler} is not installed")
    os.environ["MLGO_TEST_CLANGS"] = str(program)
    _test(session, f"clang-{compiler}", str(program), "-k", f"[{program.name}")


def _of_a_wheel(session: nox.Session, version: str) -> Path:
    """Return the path of a program that runs the clang of a wheel."""
    folder = RESULTS / "wheels" / version
    if not (folder / "ziglang").exists():
        words = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        session.run(sys.executable, *words, f"ziglang=={WHEELS[version]}")
    program = folder / f"clang-{version}-of-ziglang"
    # This clang finds its headers by an option only.
    clang = f'exec "{folder}/ziglang/zig" clang'
    program.write_text(
        f'#!/bin/sh\ncase "$1" in -cc1*) {clang} "$@";; esac\n{clang} "-resource-dir={folder}/ziglang/lib" "$@"\n'
    )
    program.chmod(0o755)
    return program
