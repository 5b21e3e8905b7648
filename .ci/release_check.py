"""Builds, installs and uses the wheel and the source distribution; prints a line per step: `make release-check`.

    python .ci/release_check.py [--address https://HOST/OWNER/NAME]

Checks the files of the wheel, installs each distribution in a new environment with an empty cache, and there runs
`mlgo-gym doctor`, policies without a network, and the steps of the README. All steps run outside the checkout.
Copies both distributions to `dist/` at the end. The exit status is 1 if a step fails.

The address of the repository becomes `[project.urls]` of pyproject.toml and the address of CITATION.cff, and makes the
links of the README absolute: a package index shows that page alone. Without one the distributions have none.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

URLS = "# .ci/release_check.py --address adds [project.urls] here.\n"
"""Line of pyproject.toml that a release with an address replaces."""

MAX_WHEEL_BYTES = 6_000_000

LABELS = "mlgo_gym/training/bundled_labels/"
ALLOWED = ("mlgo_clang/", "mlgo_gym/", "mlgo_gym-")
FORBIDDEN = (".bc", ".cmd", ".o", ".so", ".parquet", ".jsonl", ".onnx", ".tflite", ".recipe", ".png")
"""Endings of test data, and of files that users make in a checkout; the bundled labels are no such files."""

EXPECTED = (
    *("mlgo_gym/envs/inline.py", "mlgo_gym/py.typed", "mlgo_clang/py.typed", f"{LABELS}Os.parquet"),
    "mlgo_gym/policies/bundled/last-call.rule",
)

EXTRAS = "tools"
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""Proxies at a port where no server listens."""

SMOKE = """
import gymnasium as gym, mlgo_gym
from mlgo_gym.make_env import compiler_environments
for env_id in compiler_environments():
    env = gym.make(env_id, corpus="builtin", max_decisions=20)
    observation, info = env.reset(seed=0, options={"module": "c/lz"})
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    assert not truncated, info
    print(env_id, info["text"], info["baseline_text"])
    env.close()
assert "site-packages" in mlgo_gym.__file__, mlgo_gym.__file__
"""


def run(title: str, words: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a step, print its outcome and time, and return its output; exit if it fails."""
    start = time.perf_counter()
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MLGO_CLANG")}
    variables, null = {**inherited, **environment}, subprocess.DEVNULL
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, env=variables, stdin=null, capture_output=True, text=True, check=False)
    print(f"{'FAILED' if done.returncode else 'ok':7} {title}  ({time.perf_counter() - start:.0f} s)", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def released(folder: Path, address: str) -> Path:
    """Return a copy of the committed files, with the address of a release if it is not empty."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
    if not address:
        return folder
    project, citation = folder / "pyproject.toml", folder / "CITATION.cff"
    urls = f'[project.urls]\nSource = "{address}"\nChangelog = "{address}/blob/main/CHANGELOG.md"\n'
    project.write_text(project.read_text(encoding="utf-8").replace(URLS, urls), encoding="utf-8")
    citation.write_text(f"{citation.read_text(encoding='utf-8')}repository-code: {address}\n", encoding="utf-8")
    page = folder / "README.md"
    text = re.sub(r"(\]\()(?!\w+:|#)", rf"\1{address}/blob/main/", page.read_text(encoding="utf-8"))
    page.write_text(re.sub(r'((?:src|srcset)=")(?!\w+:)', rf"\1{address}/raw/main/", text), encoding="utf-8")
    return folder


def is_allowed(name: str) -> bool:
    """Return whether a wheel may have a file of this name."""
    fine = name.startswith(ALLOWED) and "/test" not in name
    return fine and (name.startswith(LABELS) or not name.endswith(FORBIDDEN))


def check_files(wheel: Path) -> None:
    """Check that a wheel is small and contains only the packages and their data; exit if not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    size = wheel.stat().st_size
    others = [name for name in names if not is_allowed(name)]
    missing = [name for name in EXPECTED if name not in names]
    print(f"the wheel: {size} bytes, {len(names)} files", flush=True)
    if size > MAX_WHEEL_BYTES or others or missing:
        sys.exit(f"expected at most {MAX_WHEEL_BYTES} bytes, got {size}; unexpected: {others}; missing: {missing}")


def check(kind: str, distribution: Path, work: Path, *, network: bool) -> None:
    """Install a distribution in a new environment, and use it."""
    folder = work / kind
    folder.mkdir()
    run(f"{kind}: environment", (sys.executable, "-m", "venv", "venv"), folder)
    programs = folder / "venv" / "bin"
    # The wheel is found by its name, as on an index.
    named = f"{distribution}[{EXTRAS}]" if kind == "sdist" else f"mlgo-gym[{EXTRAS}]=={distribution.name.split('-')[1]}"
    options = ("-q", "--disable-pip-version-check", "--find-links", distribution.parent)
    run(f"{kind}: pip install '{Path(named).name}'", (programs / "pip", "install", *options, named), folder)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    variables = {"PATH": path, "MLGO_CACHE": str(folder / "cache")}
    run(f"{kind}: mlgo-gym --version", (programs / "mlgo-gym", "--version"), folder, **variables)
    run(f"{kind}: every environment", (programs / "python", "-W", "error", "-c", SMOKE), folder, **variables)
    run(f"{kind}: mlgo-gym doctor", (programs / "mlgo-gym", "doctor"), folder, **variables)
    policies = ("mlgo-gym", "evaluate", "mlgo/Inline-v0", "--policy", "default,last-call", "--limit", "8")
    run(f"{kind}: policies without a network", policies, folder, **variables, **NO_NETWORK)
    words: list[str | Path] = [programs / "python", ROOT / ".ci" / "pages.py", "README.md"]
    words += ["--network"] if network else []
    print(run(f"{kind}: the README", words, folder, **variables), end="", flush=True)


def main() -> None:
    """Build, and check both distributions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="store_true", help="also run steps of the README that download sources")
    parser.add_argument("--address", default="", help="https://HOST/OWNER/NAME of the repository (default: none)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-release-") as temporary:
        work = Path(temporary)
        run("build environment", (sys.executable, "-m", "venv", "build"), work)
        builder = work / "build" / "bin" / "python"
        run("install build", (builder, "-m", "pip", "install", "-q", "--disable-pip-version-check", "build"), work)
        source = released(work / "source", options.address)
        run("build wheel and sdist", (builder, "-m", "build", "--outdir", work / "dist", source), work)
        (wheel,), (archive,) = (list((work / "dist").glob(name)) for name in ("*.whl", "*.tar.gz"))
        check_files(wheel)
        check("wheel", wheel, work, network=options.network)
        check("sdist", archive, work, network=False)
        shutil.copytree(work / "dist", ROOT / "dist", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
