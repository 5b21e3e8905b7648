"""`mlgo-gym build`: a build with the link facts of its objects."""

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from typer import Argument, Option

from mlgo_clang.build_log import read_log
from mlgo_clang.settings import BUILD_LOG
from mlgo_gym.cli.interface import echo
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.link_facts import LinkFacts, objects_of
from mlgo_gym.llvm.linker import Folding

_PLAIN = {"MLGO_POLICY": "default", "MLGO_RECIPES": "", "MLGO_LINK_FACTS": "", "CCACHE_DISABLE": "1"}


def build(
    command: Annotated[list[str], Argument(help="The build, after --: make -j4, cmake --build build, ninja, …")],
    *,
    facts: Annotated[Path, Option(help="File of link facts.")] = Path("mlgo.facts"),
) -> None:
    """Build, write the link facts of what is linked, and build again with these facts.

    CC and CXX are mlgo-clang and mlgo-clang++, with the policy of MLGO_POLICY in the second build. Clang alone makes
    the first one; its objects are removed, so that the command compiles them again. If the file of facts exists, the
    command runs once, with these facts: to renew them, remove the file and clean the build. Exit status: that of the
    build.
    """
    objects = [] if facts.exists() else _write_facts(command, facts)
    _run(command, {"MLGO_LINK_FACTS": str(facts.absolute())})
    if missing := [path for path in objects if not path.exists()]:
        _warn(
            f"expected that the build compiles its {len(objects)} objects again, got {len(missing)} that it did not, "
            f"such as {missing[0]}; clean the build and run mlgo-gym build again"
        )


def _write_facts(command: Sequence[str], facts: Path) -> list[Path]:
    """Build by clang alone, write the facts, and remove the objects; return their paths."""
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder, "log"))
        Path(log).touch()
        # Unlike the other times of a file, a program cannot set the one of its last change.
        start = Path(log).stat().st_ctime_ns
        _run(command, {**_PLAIN, BUILD_LOG: log})
        # Makefiles remove some objects after the link.
        compiled = [path for path in map(Path, read_log(log, "object")) if path.is_file()]
        linked = [path for path in map(Path, read_log(log, "link")) if path.is_file()]
        folding = max(read_log(log, "icf"), key=("none", "safe", "all").index, default="none")
    files = dict.fromkeys((*linked, *compiled))
    found = LinkFacts.of_objects(objects_of(files), cast("Folding", folding))
    if not compiled or not found.targets:
        raise MlgoError(
            "expected a build in which mlgo-clang compiles objects with code, got none; clean the build, omit -flto, "
            "or name the compilers where it is configured: CC=mlgo-clang CXX=mlgo-clang++ in the arguments of make, "
            "or in the environment of configure or cmake"
        )
    if older := [path for path in linked if path.suffix == ".o" and path.stat().st_ctime_ns < start]:
        _warn(
            f"expected that the build compiles all objects that it links, got {len(older)} older ones, such as "
            f"{older[0]}; for better facts clean the build, remove {facts} and run mlgo-gym build again"
        )
    found.write(facts)
    echo(
        f"mlgo-gym: {facts}: {len(found.counts)} weak functions of a link with --icf={folding}; building again",
        err=True,
    )
    for path in compiled:
        # In builds with libtool a library depends on NAME.lo.
        names = path.with_suffix(".lo"), path.parent.parent / f"{path.stem}.lo"
        for file in (path, *names[: 1 + (path.parent.name == ".libs")]):
            file.unlink(missing_ok=True)
    return compiled


def _run(command: Sequence[str], settings: Mapping[str, str]) -> None:
    scripts = Path(sysconfig.get_path("scripts"))
    compilers = {
        # A cache of objects may be the first word.
        name: os.environ[name] if "mlgo-clang" in os.environ.get(name, "") else str(scripts / program)
        for name, program in (("CC", "mlgo-clang"), ("CXX", "mlgo-clang++"))
    }
    try:
        status = subprocess.run(command, env={**os.environ, **compilers, **settings}, check=False).returncode
    except OSError as error:
        raise MlgoError(f"expected a build after --, got {command[0]}: {error.strerror}; name a program") from error
    if status:
        raise typer.Exit(status if status > 0 else 128 - status)


def _warn(message: str) -> None:
    echo(f"mlgo-gym: warning: {message}", err=True)
