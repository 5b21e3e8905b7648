"""The cache of `mlgo-clang`: damage, and places where it cannot be."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.garbling import garblings
from tests.mlgo_clang.conftest import Run, files

COMPILE = ("--mlgo-strict", "-Oz", "-c", "calls.c", "-o", "calls.o")


@pytest.mark.parametrize("times", [1, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_a_garbled_cache_is_made_again(times: int, run: Run, project: Path, network: Path, own_cache: Path) -> None:
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
            kind = "counters" if path.parent.name == "builds" else kind
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


@pytest.mark.parametrize("policy", ["never", "smallest"])
def test_a_full_disk_keeps_no_temporary_file(policy: str, run: Run, project: Path) -> None:
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    (project / "disk").mkdir()
    mount = "mount -t tmpfs -o size=4k tmpfs disk"
    if not shutil.which("unshare") or subprocess.run([*namespace, "sh", "-c", mount], cwd=project).returncode:
        pytest.skip("this user cannot mount a small file system")
    functions = (f"int f{n}(int x) {{ return x * {n} + {n}; }}" for n in range(200))
    (project / "calls.c").write_text("\n".join((*functions, (project / "calls.c").read_text())))
    script = f'{mount} && cd disk || exit 9; "$@"; status=$?; ls; exit $status'
    words = (f"--mlgo-policy={policy}", "-Oz", "-c", "../calls.c", "-o", "calls.o")
    result = run(*words, before=(*namespace, "sh", "-c", script, "sh"))
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"No space left on device" in result.stderr


def test_it_compiles_without_a_cache_or_a_folder(run: Run, project: Path, tmp_path: Path, network: Path) -> None:
    words = ("-Oz", "-c", str(project / "calls.c"), "-o", str(tmp_path / "calls.o"))
    for variables in (("HOME=",), ("-u", "HOME", "HOME=relative"), (f"HOME={tmp_path}", "XDG_CACHE_HOME=relative")):
        before = ("env", "-u", "MLGO_CACHE", "-u", "XDG_CACHE_HOME", *variables)
        result = run("--mlgo-policy=never", *words, before=before)
        assert (result.returncode, result.stderr, files(project)) == (0, b"", ["calls.c"])
    assert (tmp_path / ".cache" / "mlgo-gym" / "mlgo-clang" / "builds").is_dir()
    without_home = ("env", "-u", "MLGO_CACHE", "-u", "XDG_CACHE_HOME", "HOME=")
    result = run(f"--mlgo-policy=mlp:{network}", *words, before=without_home)
    assert (result.returncode, b"expected a cache folder that can be written" in result.stderr) == (0, True)
    own_cache = ("env", f"MLGO_CACHE={tmp_path / 'cache'}")  # other tests of this build may have warned already
    removed = (*own_cache, "sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh")
    for options, status, message in (
        (("--mlgo-policy=never",), 0, b""),
        (("--mlgo-levels=2",), 0, b"expected -O2, got -Oz"),
        (("--mlgo-policy=mlp:nowhere",), 1, b"expected the file of a policy"),
        (("--mlgo-clang=./nowhere",), 1, b"expected a clang 17 or newer, got './nowhere'"),
    ):
        result = run(*options, *words, before=removed)
        assert (result.returncode, message in result.stderr, b"Traceback" in result.stderr) == (status, True, False)
