"""C as native code: a shared library that a clang builds once, and that the cache folder keeps."""

from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.cache import FileCache, key_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.errors import ToolchainError
from mlgo_gym.storage.temporary_folders import temporary_folder

FLAGS = ("-O2", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno")
"""Compiler options for the code: nothing may be fused or reordered."""


def build_library(code: str, compiler: Sequence[str]) -> Path:
    """Build the library of some C, which includes no header, in the cache folder, and return its path.

    The words `compiler` start the clang that builds it. It uses the libraries of the process that loads it. Raises
    `ToolchainError` if the clang cannot build a shared library, and `OSError` if the cache cannot be written.
    """
    program = Path(compiler[0]).stat()
    libraries = FileCache("native-code", ".so")
    key = key_of(code, *compiler, *FLAGS, program.st_dev, program.st_ino, program.st_size, program.st_mtime_ns)
    return libraries.get(key) or libraries.put(key, compile_library(code, compiler), 0o777)


def compile_library(code: str, compiler: Sequence[str]) -> bytes:
    """Return the library; arguments and errors as for `build_library()`, which keeps it."""
    with temporary_folder() as folder:
        source, built = folder / "code.c", folder / "code.so"
        source.write_text(code, encoding="ascii")
        output_of([*compiler, *FLAGS, "-w", "-fPIC", "-x", "c", "-c", str(source), "-o", f"{folder}/code.o"])
        # The bundled compiler contains its linker; others use the machine's.
        linker = [compiler[0], "ld.lld"] if Path(compiler[0]).name == "zig" else compiler
        output_of([*linker, "-shared", "-nostdlib", f"{folder}/code.o", "-o", str(built)])
        return built.read_bytes()


def output_of(command: Sequence[str]) -> str:
    """Run a tool and return its standard output, or raise a `ToolchainError`."""
    result = run_bounded(command, writable=None, name=command[0])
    if result.returncode != 0:
        raise ToolchainError(f"{command[0]} failed: {result.stderr.strip()[-2000:]}")
    return result.stdout.strip()
