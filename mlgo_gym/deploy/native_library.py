"""A network as a shared library that `mlgo-clang` loads: made once per network, by the underlying clang.

`python -m mlgo_gym.deploy.native_library NETWORK LIBRARY COMPILER…` makes one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.deploy.decision_code import decision_code
from mlgo_gym.deploy.network_code import FLAGS
from mlgo_gym.errors import MlgoError, ToolchainError

_DECIDE = """
const char *const mlgo_inputs = "{inputs}";

long long mlgo_decide(const char *data, long long start, const int *offsets) {{
  float features[{count}];
  for (int i = 0; i < {count}; ++i) {{
    long long value;
    __builtin_memcpy(&value, data + start + offsets[i], sizeof value);
    features[i] = (float)value;
  }}
  return mlgo_yes(features);
}}
"""


def build_native_library(network: Path, library: Path, compiler: Sequence[str]) -> None:
    """Make the library of a network; the file appears complete or not at all.

    It uses the libm of the process that loads it; every Python has one.

    Args:
        network: the network's file.
        library: where the library goes.
        compiler: the words that start the clang that compiles it.

    Raises:
        PolicyError: there is no such network, or it decides something else.
        ToolchainError: the clang cannot make a shared library.
    """
    policy = decision_code(network.name, network)
    inputs = " ".join(f"{name}:int64_t" for name in policy.features)
    code = policy.code + _DECIDE.format(inputs=inputs, count=len(policy.features))
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as folder:
        source = Path(folder, "policy.c")
        made = Path(folder, "policy.so")
        source.write_text(code, encoding="ascii")
        command = [*compiler, *FLAGS, "-w", "-fPIC", "-x", "c", "-c", str(source), "-o", f"{folder}/policy.o"]
        _run(command)
        _run([*_linker(compiler), "-shared", "-nostdlib", f"{folder}/policy.o", "-o", str(made)])
        made.replace(library)


def _linker(compiler: Sequence[str]) -> list[str]:
    """Return what links: the bundled compiler brings its linker, others find the machine's."""
    program = Path(compiler[0])
    return [str(program), "ld.lld"] if program.name == "zig" else list(compiler)


def _run(command: Sequence[str]) -> None:
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if result.returncode != 0:
        message = result.stderr.decode(errors="replace").strip()
        raise ToolchainError(f"native code of a network was to be made; {command[0]} said: {message[-1000:]}")


def main(arguments: Sequence[str]) -> int:
    """Make a library; return the exit status."""
    network, library, *compiler = arguments
    try:
        build_native_library(Path(network), Path(library), compiler)
    except (MlgoError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - for mlgo-clang, which shows it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
