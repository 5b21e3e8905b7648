"""`mlgo-gym doctor`: checks this installation, and names a remedy for each problem."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS, __version__
from mlgo_gym.cli.doctor_rust import find_rustc, flag_problems
from mlgo_gym.cli.output import FAILED, JsonOption, show
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from importlib.metadata import PackageMetadata

    from mlgo_gym.env import CompilerEnv
    from mlgo_gym.llvm.advisors import Advisor
    from mlgo_gym.llvm.toolchain import Toolchain

Problems = list[dict[str, str]]

_DEVELOPER_EXTRAS = frozenset(("docs", "test", "test-libraries"))


def doctor(
    *,
    clang: Annotated[str | None, typer.Option(help="Clang to check: a path, a name on PATH, or 'bundled'.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the compiler, its advisors, and the packages and folders of this installation.

    Exit status 1: there is a problem; the last lines name remedies.
    """
    findings = examine(clang)
    show(as_json, findings, "\n".join(_lines(findings)))
    raise typer.Exit(FAILED if findings["problems"] else 0)


def examine(clang: str | None = None) -> dict[str, Any]:
    """Return the findings as JSON-able data; `problems` lists each problem with its remedy."""
    from mlgo_gym.compiler.confinement import confinement_support
    from mlgo_gym.compiler.snapshot_support import snapshot_support

    problems: Problems = list(flag_problems())
    clang_findings = _clang(clang, problems)
    findings = {
        "mlgo_gym": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "clang": clang_findings,
        "rustc": find_rustc(int(clang_findings["version"].partition(".")[0]) if "version" in clang_findings else None),
        "snapshots": dict(zip(("possible", "reason"), snapshot_support(), strict=True)),
        "confinement": dict(zip(("possible", "reason"), confinement_support(), strict=True)),
        "instruction_counter": _counter(),
        "packages": _packages(problems),
        "cache": _cache(problems),
        "scratch": _scratch(problems),
        "problems": problems,
    }
    if sys.platform != "linux":
        problems.append({"problem": f"unsupported platform {sys.platform}", "remedy": "use Linux on x86-64 or aarch64"})
    return findings


def _counter() -> dict[str, Any]:
    from mlgo_gym.tasks.metrics import find_counter

    try:
        return {"possible": True, "reason": find_counter()}
    except MlgoError as error:
        return {"possible": False, "reason": str(error)}


def _clang(name: str | None, problems: Problems) -> dict[str, Any]:
    from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED, find_toolchain

    remedy = f"choose clang {OLDEST_SUPPORTED} or newer with --clang or $MLGO_CLANG, or the bundled clang"
    try:
        toolchain = find_toolchain(name)
    except MlgoError as error:
        problems.append({"problem": str(error), "remedy": remedy})
        return {"error": str(error)}
    advisors = {advisor.name: _advisor(toolchain, advisor) for advisor in _advisors()}
    problems += [{"problem": found["error"], "remedy": remedy} for found in advisors.values() if "error" in found]
    return {
        "command": list(toolchain.command),
        "version": toolchain.version_text,
        "bundled": toolchain.bundled,
        "advisors": advisors,
    }


def _advisors() -> list[Advisor]:
    """Return the advisors of the registered environments, each once."""
    from gymnasium.envs.registration import load_env_creator

    advisors: dict[str, Advisor] = {}
    for name in ENVIRONMENTS.keys() - APPROXIMATIONS.keys():
        env_type = cast("type[CompilerEnv]", load_env_creator(f"{ENVIRONMENTS[name]}Env"))
        advisors |= {advisor.name: advisor for advisor in env_type.task_type.advisors}
    return list(advisors.values())


def _advisor(toolchain: Toolchain, advisor: Advisor) -> dict[str, Any]:
    from mlgo_gym.episode.probe import probe

    try:
        return {"features": len(probe(toolchain, advisor).header.features)}
    except MlgoError as error:
        return {"error": str(error)}


def _packages(problems: Problems) -> dict[str, dict[str, Any]]:
    """Return version, requirement and extra of each package, without those for developers."""
    try:
        metadata = _metadata()
    except importlib.metadata.PackageNotFoundError:
        problems.append({"problem": "mlgo-gym is not installed", "remedy": "pip install . in a clone of mlgo-gym"})
        return {}
    this_package = canonicalize_name("mlgo-gym")
    extras = [extra for extra in metadata.get_all("Provides-Extra") or () if extra not in _DEVELOPER_EXTRAS]
    required: dict[str, SpecifierSet] = {}
    extra_of: dict[str, str | None] = {}
    for line in metadata.get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        name = requirement.name
        marker = requirement.marker
        # Without an extra, the marker's `extra` is empty.
        applying = [extra for extra in (None, *extras) if marker is None or marker.evaluate({"extra": extra or ""})]
        if applying and canonicalize_name(name) != this_package:
            required[name] = required.get(name, SpecifierSet()) & requirement.specifier
            extra_of[name] = None if name in extra_of and extra_of[name] is None else applying[0]
    packages: dict[str, dict[str, Any]] = {}
    for name, specifier in required.items():
        version, extra = _version(name), extra_of[name]
        packages[name] = {"version": version, "required": str(specifier), "extra": extra}
        remedy = f"pip install '{name}{specifier}'"
        if version is None and extra is None:
            problems.append({"problem": f"{name} is not installed", "remedy": remedy})
        elif version is not None and not specifier.contains(version, prereleases=True):
            problems.append({"problem": f"expected {name}{specifier}, got {version}", "remedy": remedy})
    return packages


def _metadata() -> PackageMetadata:
    return importlib.metadata.metadata("mlgo-gym")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache(problems: Problems) -> dict[str, Any]:
    from mlgo_gym.storage.cache import cache_directory, write_atomically

    folder = cache_directory()
    trial = folder / f"doctor-{os.getpid()}"
    try:
        write_atomically(trial, b"")
        trial.unlink()
    except OSError as error:
        remedy = "make it writable, or set $MLGO_CACHE to a writable folder"
        problems.append({"problem": f"the cache folder {folder} cannot be written: {error.strerror}", "remedy": remedy})
        return {"path": str(folder), "error": str(error)}
    return {"path": str(folder), "free_bytes": shutil.disk_usage(folder).free}


def _scratch(problems: Problems) -> dict[str, Any]:
    from mlgo_gym.compiler.scratch import make_scratch

    try:
        folder = make_scratch()
    except OSError as error:
        problems.append({"problem": f"no scratch folder: {error}", "remedy": "set $TMPDIR to a writable folder"})
        return {"error": str(error)}
    folder.rmdir()
    parent = folder.parent.parent
    return {"path": str(parent), "in_memory": parent == Path("/dev/shm")}  # noqa: S108 - the path is not opened


def _lines(findings: dict[str, Any]) -> list[str]:
    clang, scratch, cache = findings["clang"], findings["scratch"], findings["cache"]
    lines = [f"mlgo-gym {findings['mlgo_gym']}, Python {findings['python']}, {findings['platform']}"]
    if "error" not in clang:
        lines.append(f"clang {clang['version']}{' (bundled)' * clang['bundled']}: {' '.join(clang['command'])}")
        for name, advisor in clang["advisors"].items():
            status = f"supported, {advisor['features']} features" if "features" in advisor else "not supported"
            lines.append(f"  {name:<10} {status}")
    lines.append(_rustc_line(findings["rustc"]))
    for name in ("snapshots", "confinement", "instruction_counter"):
        found = findings[name]
        state = "possible" if found["possible"] else "not possible"
        lines.append(f"{name.replace('_', ' ')}: {state}: {found['reason']}")
    lines.append(f"environments: {', '.join(ENVIRONMENTS)}")
    lines.append("packages:")
    for name, package in findings["packages"].items():
        extra = package["extra"]
        missing = f"not installed: in a clone, pip install '.[{extra}]'" if extra else "not installed"
        lines.append(f"  {name:<12} {package['version'] or missing}")
    lines.append(f"cache: {cache['path']}")
    if "path" in scratch:
        lines.append(f"scratch: {scratch['path']}{' (in memory)' * scratch['in_memory']}")
    for number, problem in enumerate(findings["problems"], start=1):
        lines += [f"problem {number}: {problem['problem']}", f"  remedy: {problem['remedy']}"]
    count = len(findings["problems"])
    lines.append(f"{count} problem{'s' * (count != 1)}" if count else "no problems")
    return lines


def _rustc_line(found: dict[str, Any]) -> str:
    version = f" {found['version']} (LLVM {found['llvm']})" if "version" in found else ""
    return f"rustc{version}: {'; '.join(found[key] for key in ('path', 'reason') if key in found)}"
