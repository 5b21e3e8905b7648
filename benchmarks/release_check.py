"""Whether what would be released installs and works: `make release-check`.

It builds wheel and source distribution, looks at what is in the wheel, installs each of them in an environment of its
own, with a cache that has nothing yet, and there runs `doctor`, the demonstration without a network, and what the
README shows. The checkout is out of reach: everything runs in another folder. It prints a line for each step, and the
exit status is 1 where one fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

LARGEST_WHEEL = 2_000_000
"""The most bytes of a wheel."""

TOP = ("mlgo_clang/", "mlgo_gym/", "mlgo_gym-")
DATA = (".bc", ".cmd", ".o", ".so", ".parquet", ".jsonl", ".onnx", ".tflite", ".recipe", ".png")
"""What would be test data, or what somebody has made in the checkout."""

EXTRAS = "all"
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""A proxy where nobody answers."""

DEMO = """
mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd@Os --offline-corpus builtin --limit 8
    --policy default --policy threshold:0 --policy always --jobs 2 --output demo
"""

SMOKE = """
import gymnasium as gym, mlgo_gym
for env_id in mlgo_gym.ENVIRONMENTS:
    env = gym.make(env_id, corpus="builtin", max_decisions=20)
    observation, info = env.reset(seed=0, options={"module": "c/lz"})
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    assert not truncated, info
    print(env_id, info["text_size"], info["baseline_text_size"])
    env.close()
assert "site-packages" in mlgo_gym.__file__, mlgo_gym.__file__
"""


class StepFailedError(Exception):
    """A step of the check that did not go well."""


def run(title: str, words: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a step, tell of it, and return what it said.

    Raises:
        StepFailedError: it failed.
    """
    start = time.perf_counter()
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MLGO_CLANG")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{'ok' if done.returncode == 0 else 'FAILED':7} {title}  ({time.perf_counter() - start:.0f} s)", flush=True)
    if done.returncode:
        raise StepFailedError(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def look_into(wheel: Path) -> None:
    """Check that a wheel is small and has the packages, their data, and nothing else.

    Raises:
        StepFailedError: it is, or has, something else.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    size = wheel.stat().st_size
    others = [name for name in names if not name.startswith(TOP) or name.endswith(DATA) or "/test" in name]
    wanted = [
        "mlgo_gym/envs/inline.py",
        "mlgo_gym/py.typed",
        "mlgo_clang/py.typed",
        "mlgo_gym/policies/box/inline-oz-plain.md",
    ]
    missing = [name for name in wanted if name not in names]
    fine = size <= LARGEST_WHEEL and not others and not missing
    print(f"{'ok' if fine else 'FAILED':7} the wheel: {size} bytes, {len(names)} files", flush=True)
    if not fine:
        raise StepFailedError(
            f"at most {LARGEST_WHEEL} bytes were wanted; not to be there: {others}; missing: {missing}"
        )


def check(kind: str, distribution: Path, work: Path, *, network: bool) -> None:
    """Install a distribution in an environment of its own, and use it.

    Raises:
        StepFailedError: something failed.
    """
    folder = work / kind
    folder.mkdir()
    run(f"{kind}: an environment", (sys.executable, "-m", "venv", "venv"), folder)
    programs = folder / "venv" / "bin"
    named = f"{distribution}[{EXTRAS}]"
    run(f"{kind}: install", (programs / "pip", "install", "-q", "--disable-pip-version-check", named), folder)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    place = {"PATH": path, "MLGO_CACHE": str(folder / "cache")}
    run(f"{kind}: mlgo-gym --version", (programs / "mlgo-gym", "--version"), folder, **place)
    run(f"{kind}: every environment", (programs / "python", "-W", "error", "-c", SMOKE), folder, **place)
    run(f"{kind}: mlgo-gym doctor", (programs / "mlgo-gym", "doctor"), folder, **place)
    run(f"{kind}: the demonstration, without a network", DEMO.split(), folder, **place, **NO_NETWORK)
    words: list[str | Path] = [programs / "python", ROOT / "benchmarks" / "readme.py"]
    print(run(f"{kind}: the README", [*words, "--network"] if network else words, folder, **place), end="", flush=True)


def main() -> None:
    """Build, and check both distributions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="store_true", help="run what the README fetches, too")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="mlgo-gym-release-") as temporary:
            work = Path(temporary)
            run("an environment to build in", (sys.executable, "-m", "venv", "build"), work)
            builder = work / "build" / "bin" / "python"
            run("install build", (builder, "-m", "pip", "install", "-q", "--disable-pip-version-check", "build"), work)
            run("build wheel and sdist", (builder, "-m", "build", "--outdir", work / "dist", ROOT), work)
            (wheel,), (source,) = (list((work / "dist").glob(name)) for name in ("*.whl", "*.tar.gz"))
            look_into(wheel)
            check("wheel", wheel, work, network=arguments.network)
            check("sdist", source, work, network=False)
    except StepFailedError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
