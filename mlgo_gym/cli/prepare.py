"""`mlgo-gym corpus prepare`: what the bundled compiler builds once, before builds have to wait for it."""

from __future__ import annotations

import time

from mlgo_gym.cli.output import say
from mlgo_gym.corpus.link_library import build_libraries
from mlgo_gym.llvm.toolchain import find_toolchain


def prepare() -> None:
    """Have the bundled compiler build its C and C++ libraries, which the first link of each kind does else.

    It takes minutes of processor time once on a machine, and seconds after
    that. Recordings with an installed clang do not need it.
    """
    started = last = time.monotonic()
    doing = ""
    for each in build_libraries(find_toolchain("bundled")):
        if doing:
            say(f"{doing}: {time.monotonic() - last:.1f} s", err=True)
        doing, last = each, time.monotonic()
    say(f"{doing}: {time.monotonic() - last:.1f} s", err=True)
    say(f"the libraries of the bundled compiler are built; {time.monotonic() - started:.1f} s")
