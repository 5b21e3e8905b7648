"""`mlgo-gym doctor`: whether this installation can do its work, and what to do where it cannot."""

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

from mlgo_gym import ENVIRONMENTS, __version__
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from importlib.metadata import PackageMetadata

    from mlgo_gym.env import CompilerEnv
    from mlgo_gym.llvm.advisors import Advisor
    from mlgo_gym.llvm.toolchain import Toolchain

MISSING = 1
"""The exit status when something is missing."""

_FOR_DEVELOPERS = frozenset(("docs", "test", "test-libraries"))


def doctor(
    *,
    clang: Annotated[
        str | None, typer.Option(help="The clang to look at: a path, a name on PATH, or 'bundled'.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the compiler, what it can be asked, and what else this installation has.

    Exit status 1: something is missing; the last lines say what to do.
    """
    findings = examine(clang)
    show(as_json, findings, "\n".join(_lines(findings)))
    raise typer.Exit(MISSING if findings["problems"] else 0)


def examine(clang: str | None = None) -> dict[str, Any]:
    """Return what `doctor` prints, as JSON-able data; `problems` lists what is missing, each with its remedy.

    Args:
        clang: the compiler, as environments take it.
    """
    problems: list[dict[str, str]] = []
    findings = {
        "mlgo_gym": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "clang": _clang(clang, problems),
        "snapshots": _snapshots(),
        "confinement": _confinement(),
        "packages": _packages(problems),
        "cache": _cache(problems),
        "scratch": _scratch(problems),
        "problems": problems,
    }
    if sys.platform != "linux":
        problems.append({"problem": f"this is {sys.platform}", "remedy": "use Linux on x86-64 or aarch64"})
    return findings


def _clang(chosen: str | None, problems: list[dict[str, str]]) -> dict[str, Any]:
    from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED, find_toolchain

    another = f"choose another clang, {OLDEST_SUPPORTED} or newer, with --clang or $MLGO_CLANG, or the bundled one"
    try:
        toolchain = find_toolchain(chosen)
    except MlgoError as error:
        problems.append({"problem": str(error), "remedy": another})
        return {"error": str(error)}
    advisors = {advisor.name: _advisor(toolchain, advisor) for advisor in _advisors()}
    problems += [{"problem": found["error"], "remedy": another} for found in advisors.values() if "error" in found]
    return {
        "command": list(toolchain.command),
        "version": toolchain.version_text,
        "bundled": toolchain.bundled,
        "advisors": advisors,
    }


def _advisors() -> list[Advisor]:
    """Return who asks in the registered environments, each once."""
    from gymnasium.envs.registration import load_env_creator

    advisors: dict[str, Advisor] = {}
    for stem in ENVIRONMENTS.values():
        env_type = cast("type[CompilerEnv]", load_env_creator(f"{stem}Env"))
        advisors |= {advisor.name: advisor for advisor in env_type.task_type.advisors}
    return list(advisors.values())


def _advisor(toolchain: Toolchain, advisor: Advisor) -> dict[str, Any]:
    from mlgo_gym.episode.probe import probe

    try:
        return {"features": len(probe(toolchain, advisor).header.features)}
    except MlgoError as error:
        return {"error": str(error)}


def _snapshots() -> dict[str, Any]:
    from mlgo_gym.session.snapshot_support import snapshot_support

    possible, reason = snapshot_support()
    return {"possible": possible, "reason": reason}


def _confinement() -> dict[str, Any]:
    from mlgo_gym.session.confinement import confinement_support

    possible, reason = confinement_support()
    return {"possible": possible, "reason": reason}


def _packages(problems: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Return the version of each package that we use, and which extra brings it; those of developers are left out."""
    try:
        metadata = _metadata()
    except importlib.metadata.PackageNotFoundError:
        problems.append({"problem": "mlgo-gym is not installed", "remedy": "pip install mlgo-gym, or pip install -e ."})
        return {}
    ours = canonicalize_name("mlgo-gym")
    extras = [extra for extra in metadata.get_all("Provides-Extra") or () if extra not in _FOR_DEVELOPERS]
    wanted: dict[str, SpecifierSet] = {}
    bringing: dict[str, str | None] = {}
    for line in metadata.get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        name = requirement.name
        applying = [extra for extra in (None, *extras) if _applies(requirement, extra)]
        if applying and canonicalize_name(name) != ours:
            wanted[name] = wanted.get(name, SpecifierSet()) & requirement.specifier
            bringing[name] = None if name in bringing and bringing[name] is None else applying[0]
    packages: dict[str, dict[str, Any]] = {}
    for name, specifier in wanted.items():
        version, extra = _version(name), bringing[name]
        packages[name] = {"version": version, "wanted": str(specifier), "extra": extra}
        remedy = f"pip install '{name}{specifier}'"
        if version is None and extra is None:
            problems.append({"problem": f"{name} is not installed", "remedy": remedy})
        elif version is not None and not specifier.contains(version, prereleases=True):
            found = f"{name} {version} is installed, and {specifier} wanted"
            problems.append({"problem": found, "remedy": remedy})
    return packages


def _metadata() -> PackageMetadata:
    return importlib.metadata.metadata("mlgo-gym")


def _applies(requirement: Requirement, extra: str | None) -> bool:
    """Return whether a requirement holds on this machine with an extra, or with none."""
    if requirement.marker is None:
        return extra is None
    return requirement.marker.evaluate({"extra": extra or ""})


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache(problems: list[dict[str, str]]) -> dict[str, Any]:
    from mlgo_gym.storage.cache import cache_directory, write_atomically

    folder = cache_directory()
    trial = folder / f"doctor-{os.getpid()}"
    try:
        write_atomically(trial, b"")
        trial.unlink()
    except OSError as error:
        remedy = "make it writable, or set $MLGO_CACHE to a folder that is"
        problems.append({"problem": f"the cache folder {folder} cannot be written: {error.strerror}", "remedy": remedy})
        return {"path": str(folder), "error": str(error)}
    return {"path": str(folder), "free_bytes": shutil.disk_usage(folder).free}


def _scratch(problems: list[dict[str, str]]) -> dict[str, Any]:
    from mlgo_gym.session.scratch import make_scratch

    try:
        folder = make_scratch()
    except OSError as error:
        remedy = "set $TMPDIR to a folder that can be written"
        problems.append({"problem": f"no scratch folder can be made: {error}", "remedy": remedy})
        return {"error": str(error)}
    folder.rmdir()
    parent = folder.parent.parent
    return {"path": str(parent), "in_memory": parent == Path("/dev/shm")}  # noqa: S108 - named only


def _lines(findings: dict[str, Any]) -> list[str]:
    clang, scratch, cache = findings["clang"], findings["scratch"], findings["cache"]
    lines = [f"mlgo-gym {findings['mlgo_gym']}, Python {findings['python']}, {findings['platform']}"]
    if "error" not in clang:
        lines.append(f"clang {clang['version']}{' (bundled)' * clang['bundled']}: {' '.join(clang['command'])}")
        for name, advisor in clang["advisors"].items():
            works = f"asks, {advisor['features']} features" if "features" in advisor else "does not work"
            lines.append(f"  {name:<10} {works}")
    snapshots = findings["snapshots"]
    lines.append(f"snapshots: {'possible' if snapshots['possible'] else 'not possible'}: {snapshots['reason']}")
    confinement = findings["confinement"]
    kept = "cannot write outside their scratch folder" if confinement["possible"] else "are not kept from writing"
    lines.append(f"compiles {kept}: {confinement['reason']}")
    lines.append(f"environments: {', '.join(ENVIRONMENTS)}")
    lines.append("packages:")
    for name, package in findings["packages"].items():
        extra = package["extra"]
        missing = f"not installed: pip install 'mlgo-gym[{extra}]'" if extra else "not installed"
        lines.append(f"  {name:<12} {package['version'] or missing}")
    lines.append(f"cache: {cache['path']}")
    if "path" in scratch:
        lines.append(f"scratch: {scratch['path']}{' (in memory)' * scratch['in_memory']}")
    for number, problem in enumerate(findings["problems"], start=1):
        lines += [f"problem {number}: {problem['problem']}", f"  remedy: {problem['remedy']}"]
    lines.append("everything is there" if not findings["problems"] else f"{len(findings['problems'])} problems")
    return lines
