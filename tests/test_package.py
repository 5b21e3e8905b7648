"""The package as it is installed and imported."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import mlgo_gym

ROOT = Path(__file__).parent.parent

COST = """
import json, re, sys, time
begin = time.process_time()
import mlgo_gym
seconds = time.process_time() - begin
# Not ru_maxrss, which a program inherits from the one that started it.
kilobytes = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
print(json.dumps([seconds, int(kilobytes) / 1024, sorted(sys.modules)]))
"""

WITHOUT_EDITABLE = "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in repr(finder).lower()]\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel installs it, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("mlgo_clang", "mlgo_gym", "envs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def run_installed(installed: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code where the wheel is installed, outside the checkout and without the package of the checkout."""
    elsewhere = [path for path in sys.path if path and path != str(ROOT)]
    start = f"import sys; sys.path[:] = {[str(installed), *elsewhere]!r}\n"
    command = [sys.executable, "-c", start + WITHOUT_EDITABLE + code]
    return subprocess.run(command, cwd=installed.parent, capture_output=True, text=True, check=False)


def test_the_wheel_installs_one_package_with_the_environments_inside_and_the_driver_beside(installed: Path) -> None:
    found = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert found == {"mlgo_gym", "mlgo_clang"}
    result = run_installed(installed, "import mlgo_gym.envs.inline; print(mlgo_gym.envs.inline.__file__)")
    assert result.stdout.strip() == str(installed / "mlgo_gym" / "envs" / "inline.py"), result.stderr


def test_no_module_called_envs_is_installed(installed: Path) -> None:
    result = run_installed(installed, "import envs")
    assert "No module named 'envs'" in result.stderr


def test_every_file_of_the_checkout_is_in_the_wheel(installed: Path) -> None:
    packages = {
        "mlgo_clang": installed / "mlgo_clang",
        "mlgo_gym": installed / "mlgo_gym",
        "envs": installed / "mlgo_gym" / "envs",
    }
    missing = [
        str(path.relative_to(ROOT))
        for name, target in packages.items()
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not (target / path.relative_to(ROOT / name)).is_file()
    ]
    assert missing == []


def test_type_checkers_are_told_that_the_package_is_typed(installed: Path) -> None:
    assert (installed / "mlgo_gym" / "py.typed").is_file()


def test_an_installed_environment_is_made_by_its_name_alone(installed: Path) -> None:
    code = "import gymnasium; print(gymnasium.make('mlgo_gym:mlgo/Inline-v0').unwrapped)"
    result = run_installed(installed, code)
    assert "InlineEnv" in result.stdout, result.stderr


def test_a_python_in_the_root_of_a_checkout_needs_no_editable_installation() -> None:
    code = f"import sys; sys.path.insert(0, '')\n{WITHOUT_EDITABLE}import mlgo_gym, mlgo_gym.envs.inline as inline\n"
    code += "print(mlgo_gym.__file__, inline.__file__)"
    found = subprocess.check_output([sys.executable, "-I", "-c", code], cwd=ROOT, text=True).split()
    assert found == [str(ROOT / "mlgo_gym" / "__init__.py"), str(ROOT / "envs" / "inline.py")]


def test_an_installed_package_looks_for_its_modules_nowhere_but_in_itself(installed: Path) -> None:
    result = run_installed(installed, "import mlgo_gym; print(*mlgo_gym.__path__)")
    assert result.stdout.split() == [str(installed / "mlgo_gym")], result.stderr


def test_every_import_is_declared() -> None:
    requirements = [Requirement(line) for line in importlib.metadata.requires("mlgo-gym") or ()]
    declared = {canonicalize_name(each.name) for each in requirements if "'test" not in str(each.marker)}
    core = {canonicalize_name(each.name) for each in requirements if "extra" not in str(each.marker)}
    brought = importlib.metadata.packages_distributions()
    undeclared = set()
    for path in (*(ROOT / "mlgo_gym").rglob("*.py"), *(ROOT / "envs").rglob("*.py")):
        optional = "cli" in path.parts
        for name, at_import in imports(path):
            known = name in sys.stdlib_module_names or name in ("mlgo_gym", "mlgo_clang")
            names = {canonicalize_name(each) for each in brought.get(name, [name])}
            if not known and not names & (declared if optional or not at_import else core):
                undeclared.add(f"{path.relative_to(ROOT)}: {name}")
    assert undeclared == set()


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The packages that a file imports, and whether it does when it is imported itself."""
    tree = ast.parse(path.read_text())
    outside = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], id(node) in outside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], id(node) in outside


def test_tests_that_need_a_library_are_marked_so_that_ci_runs_them() -> None:
    libraries = {"ai_edge_litert", "minari", "onnx", "ray", "sb3_contrib", "stable_baselines3", "torch", "torchrl"}
    unmarked = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        needs = set(re.findall(r"importorskip\(\"(\w+)", text)) | {name for name, _ in imports(path)}
        if needs & libraries and "pytest.mark.libraries" not in text:
            unmarked.append(str(path.relative_to(ROOT)))
    assert unmarked == []


def test_the_version_is_that_of_the_metadata() -> None:
    assert mlgo_gym.__version__ == importlib.metadata.version("mlgo-gym")


def test_importing_it_is_quick_and_small() -> None:
    # Processor time: it does not depend on what else this machine does.
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", COST])) for _ in range(3)]
    assert min(seconds for seconds, _, _ in runs) < 0.5
    assert min(megabytes for _, megabytes, _ in runs) < 100


def test_importing_it_opens_nothing_that_a_feature_alone_needs() -> None:
    _, _, modules = json.loads(subprocess.check_output([sys.executable, "-c", COST]))
    assert not {"typer", "rich", "elftools", "pypi_simple", "torch", "ziglang"} & set(modules)


def test_a_plain_compile_does_not_load_what_copies_processes() -> None:
    code = "import sys, mlgo_gym.episode.baseline; print('mlgo_gym.session.snapshots.ptrace' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_the_driver_imports_nothing_but_itself_and_little_of_the_standard_library() -> None:
    code = "import json, sys; before = set(sys.modules); import mlgo_clang.__main__, mlgo_clang.advised\n"
    modules = subprocess.check_output([sys.executable, "-c", f"{code}print(json.dumps([*set(sys.modules) - before]))"])
    found = {name.partition(".")[0] for name in json.loads(modules)}
    assert found <= {"mlgo_clang", "fcntl", "select", "signal", "struct", "_struct", "enum", "types", "operator"}
