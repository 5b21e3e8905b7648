"""Runs a WebAssembly program in wasmtime and writes the number of its executed operators, its fuel, to a file.

`python -m mlgo_gym.episode.metrics.webassembly FILE PROGRAM ARGUMENTS…`; the program may use the working directory.
"""

import sys
from pathlib import Path

from mlgo_gym.extras import library

_FUEL = 1 << 62
_STACK = 2 << 20
"""Bytes of the stack: the most that wasmtime grants without a stack of its own, four times as much as by default."""


def main(report: str, program: str, *arguments: str) -> int:
    """Run the program and return its exit status."""
    wasmtime = library("wasmtime", "Running WebAssembly programs", "run-time")
    config = wasmtime.Config()
    config.consume_fuel = True
    config.max_wasm_stack = _STACK
    engine = wasmtime.Engine(config)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    store.set_fuel(_FUEL)
    wasi = wasmtime.WasiConfig()
    wasi.argv = (Path(program).name, *arguments)
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir(".", ".")
    store.set_wasi(wasi)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, program))
    status = 0
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as ended:
        status = ended.code
    except wasmtime.Trap as trap:
        print(trap, file=sys.stderr)  # noqa: T201 - standard error of the program
        status = 134
    Path(report).write_text(f"{_FUEL - store.get_fuel()}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
