"""`mlgo-gym doctor`: checks this installation, and names a remedy for each problem."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from gymnasium.envs.registration import load_env_creator
from typer import Option

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS, __version__
from mlgo_gym.cache import cache_directory, write_atomically
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import print_result
from mlgo_gym.compiler.connection import make_scratch
from mlgo_gym.compiler.limits import confinement_support
from mlgo_gym.compiler.probe import probe
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.episode.metrics.counters import find_counter
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED, find_toolchain

Findings = dict[str, Any]
Report = Callable[[str, str], None]
"""Takes a problem and its remedy."""


def doctor(
    *,
    clang: Annotated[str | None, Option(help="Clang to check: a path, a name on PATH, or 'bundled'.")] = None,
    as_json: options.Json = False,
) -> None:
    """Show the compiler, its advisors, and the folders of this installation; `pip check` checks its packages.

    Exit status 1: there is a problem; the last lines name remedies.
    """
    problems: list[dict[str, str]] = []

    def report(problem: str, remedy: str) -> None:
        problems.append({"problem": problem, "remedy": remedy})

    compiler = _clang(clang, report)
    supported = {"snapshots": snapshot_support(), "confinement": confinement_support()}
    try:
        supported["instruction_counter"] = True, find_counter()
    except MlgoError as error:
        supported["instruction_counter"] = False, str(error)
    findings = {
        "mlgo_gym": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "clang": compiler,
        **{name: {"possible": possible, "reason": reason} for name, (possible, reason) in supported.items()},
        "cache": _cache(report),
        "scratch": _scratch(report),
        "problems": problems,
    }
    if sys.platform != "linux":
        report(f"unsupported platform {sys.platform}", "use Linux on x86-64 or aarch64")
    print_result(as_json, findings, "\n".join(_lines(findings)), problems)


def _clang(name: str | None, report: Report) -> Findings:
    remedy = f"choose clang {OLDEST_SUPPORTED} or newer with --clang or $MLGO_CLANG, or the bundled clang"
    try:
        toolchain = find_toolchain(name)
    except MlgoError as error:
        report(str(error), remedy)
        return {"error": str(error)}
    advisors: dict[str, Findings] = {}
    for entry in (ENVIRONMENTS[name] for name in ENVIRONMENTS if name not in APPROXIMATIONS):
        env_type: Any = load_env_creator(f"{entry}Env")
        for advisor in (advisor for advisor in env_type.task_type.advisors if advisor.name not in advisors):
            try:
                advisors[advisor.name] = {"features": len(probe(toolchain, advisor).header.features)}
            except MlgoError as error:  # noqa: PERF203 - one iteration is a compile
                advisors[advisor.name] = {"error": str(error)}
                report(str(error), remedy)
    version, bundled = toolchain.version_text, toolchain.bundled
    return {"command": list(toolchain.command), "version": version, "bundled": bundled, "advisors": advisors}


def _cache(report: Report) -> Findings:
    folder = cache_directory()
    trial = folder / f"doctor-{os.getpid()}"
    try:
        write_atomically(trial, b"")
        trial.unlink()
    except OSError as error:
        remedy = "make it writable, or set $MLGO_CACHE to a writable folder"
        report(f"the cache folder {folder} cannot be written: {error.strerror}", remedy)
        return {"path": str(folder), "error": str(error)}
    return {"path": str(folder), "free_bytes": shutil.disk_usage(folder).free}


def _scratch(report: Report) -> Findings:
    try:
        folder = make_scratch()
    except OSError as error:
        report(f"no scratch folder: {error}", "set $TMPDIR to a writable folder")
        return {"error": str(error)}
    folder.rmdir()
    parent = folder.parent.parent
    return {"path": str(parent), "in_memory": parent == Path("/dev/shm")}  # noqa: S108 - the path is not opened


def _lines(findings: Findings) -> Iterator[str]:
    clang, scratch = findings["clang"], findings["scratch"]
    yield f"mlgo-gym {findings['mlgo_gym']}, Python {findings['python']}, {findings['platform']}"
    if "error" not in clang:
        yield f"clang {clang['version']}{' (bundled)' * clang['bundled']}: {' '.join(clang['command'])}"
        for name, advisor in clang["advisors"].items():
            status = f"supported, {advisor['features']} features" if "features" in advisor else "not supported"
            yield f"  {name:<10} {status}"
    for name in ("snapshots", "confinement", "instruction_counter"):
        state = "possible" if findings[name]["possible"] else "not possible"
        yield f"{name.replace('_', ' ')}: {state}: {findings[name]['reason']}"
    yield f"environments: {', '.join(ENVIRONMENTS)}"
    yield f"cache: {findings['cache']['path']}"
    if "path" in scratch:
        yield f"scratch: {scratch['path']}{' (in memory)' * scratch['in_memory']}"
    for number, problem in enumerate(findings["problems"], start=1):
        yield f"problem {number}: {problem['problem']}"
        yield f"  remedy: {problem['remedy']}"
    count = len(findings["problems"])
    yield f"{count} problem{'s' * (count != 1)}" if count else "no problems"
