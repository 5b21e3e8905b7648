"""A compile in two steps, as `clang -save-temps` splits it: the front end writes bitcode, and the back end reads it.

Clang names callees in remarks. A remark about a line of a system header is never printed, and the back end alone knows
no headers.
"""

from __future__ import annotations

import os

from mlgo_clang.advisors import INLINING, PRINTING, PRINTING_FILES, REMARKS
from mlgo_clang.driver_commands import drop_options, read_commands
from mlgo_clang.errors import PolicyError
from mlgo_clang.interactive import InteractiveCompile
from mlgo_clang.native import NativeServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.interactive import Advisor
    from mlgo_clang.native import NativeNetwork

_BITCODE = ("-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes", "-o", "-")
_FROM_BITCODE = (*REMARKS, "-fno-caret-diagnostics", "-x", "ir", "/dev/stdin")
_FRONT_END = (
    "-dependency-file", "-MT", "-serialize-diagnostic-file", "-header-include-file", "-x", "-include-pch",
    "-fdiagnostics-show-category", "-fdiagnostics-format",
)  # fmt: skip
"""Options with a value that the back end does not get: the front end writes these files, remarks need a plain form."""
_FRONT_END_ALONE = ("-sys-header-deps", "-MP", "-MG", "-module-file-deps", "-w")
_FORMAT = (
    "-fdiagnostics-", "-fno-diagnostics-", "-fmessage-length", "-fcolor-", "-fansi-", "-fno-show-", "-fshow-", "-R",
)  # fmt: skip
"""Options for the form of messages: remarks need the default form."""
_OTHER_RESULTS = (
    "-fsanitize", "-fprofile", "-fcs-profile", "-fxray", "-fcoverage-mapping", "-coverage-", "-femit-coverage",
    "-opt-record", "-foptimization-record", "-R", "-ftime-", "-print-stats", "-stats-file", "-load", "-plugin",
    "-add-plugin", "-fpass-plugin", "-fno-builtin", "-ffreestanding", "-stack-usage-file", "-split-dwarf",
)  # fmt: skip
"""Options with which two steps can give another object or another file than one."""
_PRINTS = ("-print-before", "-print-after", "-print-changed", "-print-module", "-filter-print-", "-ir-dump-")


class TwoSteps:
    """The two steps of a compile, of which the front end has run.

    Args:
        compiler: the words that start clang's driver.
        rest: its arguments.
        timeout: seconds without a sign of life after which clang is stopped.

    Raises:
        PolicyError: clang refuses the source, or the arguments are for more than one compile.

    Attributes:
        exact: whether the object of the two steps is certain to be that of one.
        switches: the `-mllvm` options of an inlining advisor whose policy uses callee features.
    """

    def __init__(self, compiler: Sequence[str], rest: Sequence[str], timeout: float) -> None:
        self._timeout = timeout
        self._bitcode = os.memfd_create("mlgo-clang-bitcode", os.MFD_CLOEXEC)
        self._warnings = _message_file()
        colour = ["-fcolor-diagnostics"] if os.isatty(2) else []
        printed = _message_file()
        try:
            shown = InteractiveCompile([*compiler, "-###", *colour], rest, [], printed, timeout)
            text = os.fsdecode(_contents(printed))
        finally:
            os.close(printed)
        commands = read_commands(text)
        words = commands[0] if len(commands) == 1 else []
        if shown.status != 0 or words[1:2] != ["-cc1"] or "-emit-obj" not in words:
            raise PolicyError("expected one compile from clang's driver, got another number or an error")
        if any(word.startswith(_PRINTS) for word in words):
            raise PolicyError(
                "options that print code hide what callee features need; remove them, or use another policy"
            )
        # Warnings about the command line itself.
        warnings = (line for line in text.splitlines() if ": warning: " in line and not line.startswith(' "'))
        os.write(self._warnings, os.fsencode("".join(f"{line}\n" for line in warnings)))
        self._program, self._line = words[:2], words[2:]
        self.exact = not any(word.startswith(_OTHER_RESULTS) for word in self._line)
        version = text.partition("clang version ")[2].partition(".")[0]
        self.switches = (*INLINING, *(PRINTING_FILES if version.isdigit() and int(version) >= 18 else PRINTING))
        front = [word for word in drop_options(self._line, (), ("-o",)) if word != "-emit-obj"]
        streams = (-1, self._bitcode)
        if InteractiveCompile([*self._program, *_BITCODE], front, [], self._warnings, timeout, streams).status != 0:
            raise PolicyError("the front end does not compile the source")

    def compile(
        self, network: NativeNetwork | None, advisors: Sequence[Advisor], output: str = ""
    ) -> tuple[InteractiveCompile, bytes]:
        """Run the back end; return the compile and what clang printed in this step.

        Args:
            network: the network, which decides for the first advisor; None discards what clang prints.
            advisors: the advisors that request decisions.
            output: the object; empty for that of the command line.
        """
        words = drop_options(self._line[:-1], _FORMAT, (*_FRONT_END, "-o") if output else _FRONT_END)
        back = [word for word in words if word not in _FRONT_END_ALONE]
        messages = _message_file()
        try:
            rest = [*back, *(("-o", output) if output else ()), *_FROM_BITCODE]
            run = InteractiveCompile(self._program, rest, advisors, messages, self._timeout, (self._bitcode, -1))
            server = run.servers[0] if run.servers else None
            if network is None:
                printed = b""
            elif isinstance(server, NativeServer):
                printed = server.other_messages()
            else:
                printed = network.other_messages(_contents(messages))
        finally:
            os.close(messages)
        return run, printed

    @property
    def warnings(self) -> bytes:
        """Text that clang printed in the first step."""
        return _contents(self._warnings)


def _message_file() -> int:
    import fcntl

    descriptor = os.memfd_create("mlgo-clang-messages", os.MFD_CLOEXEC)
    # In append mode the reader can truncate the file.
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


def _contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
