"""The package as it is installed and imported."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mlgo_gym

ROOT = Path(__file__).parent.parent
WITHOUT_EDITABLE = "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in repr(finder).lower()]\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel installs it, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("mlgo_clang", "mlgo_gym", "envs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.slow
def test_the_wheel_has_every_file_and_an_installed_environment_is_made_by_its_name(installed: Path) -> None:
    targets = {"mlgo_clang": "mlgo_clang", "mlgo_gym": "mlgo_gym", "envs": "mlgo_gym/envs"}
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"mlgo_gym", "mlgo_clang"}
    for name, target in targets.items():
        files = [path.relative_to(ROOT / name) for path in (ROOT / name).rglob("*") if path.is_file()]
        expected = [file for file in files if "__pycache__" not in file.parts]
        assert [file for file in expected if not (installed / target / file).is_file()] == []
    elsewhere = [path for path in sys.path if path and path != str(ROOT)]
    code = f"""
import sys
sys.path[:] = {[str(installed), *elsewhere]!r}
{WITHOUT_EDITABLE}
import gymnasium, mlgo_gym.envs.inline
print(mlgo_gym.envs.inline.__file__, *mlgo_gym.__path__)
print(gymnasium.make('mlgo_gym:mlgo/Inline-v0').unwrapped)
import envs
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=False)
    package = installed / "mlgo_gym"
    assert result.stdout.splitlines()[0] == f"{package / 'envs' / 'inline.py'} {package}", result.stderr
    assert "InlineEnv" in result.stdout
    assert "No module named 'envs'" in result.stderr


def test_a_python_in_the_root_of_a_checkout_needs_no_editable_installation() -> None:
    code = f"import sys; sys.path.insert(0, '')\n{WITHOUT_EDITABLE}import mlgo_gym, mlgo_gym.envs.inline as inline\n"
    code += "print(mlgo_gym.__file__, inline.__file__)"
    files = subprocess.check_output([sys.executable, "-I", "-c", code], cwd=ROOT, text=True).split()
    assert files == [str(ROOT / "mlgo_gym" / "__init__.py"), str(ROOT / "envs" / "inline.py")]


def imported(program: str) -> set[str]:
    """Return the modules that a program imports."""
    code = f"import json, sys; before = set(sys.modules)\n{program}\nprint(json.dumps([*set(sys.modules) - before]))"
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code])))


def test_imports_are_as_small_as_what_they_are_for() -> None:
    package = imported("import mlgo_gym")
    assert {name for name in package if name.startswith("mlgo_gym.")} == set()
    assert not {"typer", "rich", "elftools", "pypi_simple", "torch", "ziglang"} & package
    assert "mlgo_gym.session.snapshots.ptrace" not in imported("import mlgo_gym.episode.baseline")
    # A build starts the driver hundreds of times.
    driver = {name.partition(".")[0] for name in imported("import mlgo_clang.__main__, mlgo_clang.advised")}
    assert driver <= {"mlgo_clang", "fcntl", "select", "signal", "struct", "_struct", "enum", "types", "operator"}


def test_public_names_are_documented_and_an_unknown_one_is_an_attribute_error() -> None:
    values = [getattr(mlgo_gym, name) for name in mlgo_gym.__all__]
    assert all(inspect.getdoc(value) for value in values if inspect.isclass(value) or inspect.isfunction(value))
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        mlgo_gym.evaluat  # noqa: B018 - the access is the test
    assert mlgo_gym.__version__ == importlib.metadata.version("mlgo-gym")
