"""The cache of `mlgo-clang`: damage, and places where it cannot be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.garbling import garblings
from tests.mlgo_clang.conftest import Run

COMPILE = ("--mlgo-strict", "-Oz", "-c", "calls.c", "-o", "calls.o")


@pytest.mark.parametrize("times", [1, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_garbled_files_of_the_cache_are_made_again_and_change_no_object(
    times: int, run: Run, project: Path, network: Path, own_cache: Path
) -> None:
    kinds = {"native-code", "library", "headers", "counters"}
    headers = ("--mlgo-policy=never", "--target=riscv64-linux-musl")
    for policy in ((f"--mlgo-policy=mlp:{network}",), headers):

        def compiled(policy: tuple[str, ...] = policy) -> bytes:
            result = run(*policy, *COMPILE)
            assert (result.returncode, result.stderr) == (0, b"")
            return (project / "calls.o").read_bytes()

        expected = compiled()
        for path in [path for path in own_cache.rglob("*") if path.is_file() and path.stat().st_size]:
            kind = {".so": "native-code", ".library": "library"}.get(path.suffix, path.name.partition("-")[0])
            if kind not in kinds:
                continue
            kinds.remove(kind)
            data = path.read_bytes()
            for garbled in garblings(data, times):
                path.write_bytes(garbled)
                assert compiled() == expected
                assert path.read_bytes() == data or kind == "counters"
    assert not kinds


def test_native_code_that_cannot_be_made_again_leaves_the_file_to_clang(
    run: Run, project: Path, network: Path, own_cache: Path, plain: bytes, tmp_path: Path
) -> None:
    copy = tmp_path / network.name
    shutil.copy(network, copy)
    words = (f"--mlgo-policy=mlp:{copy}", "-Oz", "-c", "calls.c", "-o", "calls.o")
    assert run(*words).returncode == 0
    (library,) = own_cache.rglob("*.so")
    library.write_bytes(library.read_bytes()[:5000])
    status = copy.stat()
    copy.write_bytes(bytes(status.st_size))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    result = run(*words)
    assert (result.returncode, result.stderr.count(b"\n")) == (0, 1)
    assert b"is compiled by clang alone: expected a safetensors file" in result.stderr
    assert (project / "calls.o").read_bytes() == plain
