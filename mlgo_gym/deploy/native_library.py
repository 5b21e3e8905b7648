"""A network as a shared library that `mlgo-clang` loads: made once per network, by the underlying clang.

One or two outputs say no or yes, as for inlining; more are one for each choice, as for evictions, and of these the mask
says which are legal. The library tells what it wants: `mlgo_inputs`, the features by name, and `mlgo_choices`, how long
the mask is to be, or 0. `mlgo_decide` is given where in a question each input begins; the complement of that where it
is a `float`, which is made finite as an environment makes it.

`python -m mlgo_gym.deploy.native_library NETWORK LIBRARY COMPILER…` makes one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.deploy.decision_code import DECLARATIONS, network_decision_code
from mlgo_gym.deploy.network_code import FLAGS, forward_pass
from mlgo_gym.deploy.program import exit_status_of
from mlgo_gym.errors import ToolchainError
from mlgo_gym.policies.network import Network
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.leftovers import own_folder

_DECIDE = """
const char *const mlgo_inputs = "{inputs}";
const int mlgo_choices = {choices};

long long mlgo_decide(const char *data, long long start, const int *offsets) {{
  float features[{count}];
  for (int i = 0; i < {count}; ++i) {{
    if (offsets[i] < 0) {{
      __builtin_memcpy(&features[i], data + start + ~offsets[i], sizeof features[i]);
      if (features[i] != features[i]) features[i] = 0;
      if (features[i] > {bound}.0f) features[i] = {bound}.0f;
      if (features[i] < -{bound}.0f) features[i] = -{bound}.0f;
    }} else {{
      long long value;
      __builtin_memcpy(&value, data + start + offsets[i], sizeof value);
      features[i] = (float)value;
    }}
  }}
  {decide}
}}
"""

_CHOOSE = """float outputs[MLGO_OUTPUTS];
  mlgo_forward(features, outputs);
  const char *mask = data + start + offsets[{count}];
  int best = -1;
  for (int i = 0; i < MLGO_OUTPUTS; ++i) {{
    long long legal;
    __builtin_memcpy(&legal, mask + i * sizeof legal, sizeof legal);
    if (legal && (best < 0 || outputs[i] > outputs[best])) best = i;
  }}
  return best;"""
"""The largest output that is legal, and the first of equal ones."""

_ACTION_MASK = "action_mask["


def _library_code(network: Network, name: str) -> str:
    """Return the C of a library: for a yes or no, or for one of several choices under a mask."""
    inputs = [
        feature.removeprefix("action_") if feature.startswith(_ACTION_MASK) else feature for feature in network.features
    ]
    count = len(inputs)
    if network.outputs > 2:
        code, decide = DECLARATIONS + forward_pass(network), _CHOOSE.format(count=count)
        inputs.append("mask")
    else:
        code, decide = network_decision_code(name, network).code, "return mlgo_yes(features);"
    choices = network.outputs if network.outputs > 2 else 0
    return code + _DECIDE.format(inputs=" ".join(inputs), choices=choices, count=count, bound=2**53, decide=decide)


def build_native_library(network: Path, library: Path, compiler: Sequence[str]) -> None:
    """Make the library of a network; the file appears complete or not at all.

    It uses the libm of the process that loads it; every Python has one.

    Args:
        network: the network's file.
        library: where the library goes.
        compiler: the words that start the clang that compiles it.

    Raises:
        PolicyError: there is no such network.
        ToolchainError: the clang cannot make a shared library.
    """
    code = _library_code(Network.load(network), network.name)
    library.parent.mkdir(parents=True, exist_ok=True)
    with own_folder(library.parent, ".build-") as folder:
        source, made = folder / "policy.c", folder / "policy.so"
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
    result = run_bounded(command, writable=None, name=command[0])
    if result.returncode != 0:
        message = result.stderr.strip()[-1000:]
        raise ToolchainError(f"native code of a network was to be made; {command[0]} said: {message}")


def main(arguments: Sequence[str]) -> int:
    """Make a library; return the exit status."""
    network, library, *compiler = arguments
    return exit_status_of(lambda: build_native_library(Path(network), Path(library), compiler))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
