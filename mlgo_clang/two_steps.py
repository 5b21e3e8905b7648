"""A compile in two steps, between which functions become internal, and of which the second names callees.

It is split as `clang -save-temps` does: the front end writes bitcode, and the back end reads it. Clang names callees in
remarks. A remark about a line of a system header is never printed, and the back end alone knows no headers.
"""

from __future__ import annotations

import os

from mlgo_clang.bitstream import llvm_version
from mlgo_clang.channel import INLINING, PRINTING, PRINTING_FILES, REMARKS
from mlgo_clang.command_lines import drop_options, named_output, read_commands
from mlgo_clang.compiler import CLANG
from mlgo_clang.errors import PolicyError
from mlgo_clang.files import contents_of, message_file
from mlgo_clang.interactive import InteractiveCompile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.interactive import Advisor
    from mlgo_clang.native import NativeNetwork

_BITCODE = ("-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes")
_NAMED_BY_OUTPUT = (
    "-gsplit-dwarf", "--coverage", "-coverage", "-fprofile-arcs", "-ftest-coverage", "-ftime-trace", "-fstack-usage",
    "-fsave-optimization-record", "-foptimization-record", "-save-stats", "--save-stats", "-Wp,", "-dumpdir", "@",
    "--write-",
)  # fmt: skip
"""Beginnings of options of the driver with which the output names other files, and of response files."""
_FROM_BITCODE = ("-fno-caret-diagnostics", "-x", "ir", "/dev/stdin")
_FRONT_END = (
    "-dependency-file", "-serialize-diagnostic-file", "-header-include-file", "-x", "-include-pch",
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
    "-mthread-model", "-fembed-", "-ffat-lto-objects", "-fpseudo-probe-for-profiling",
)  # fmt: skip
"""Options with which two steps can give another object or another file than one; a test compares all of clang's table.

The back end does not read some options of the language for bitcode, and both steps embed files.
"""
_PRINTS = ("-print-before", "-print-after", "-print-changed", "-print-module", "-filter-print-", "-ir-dump-")
_REFUSED = "the front end does not compile the source"


def _one_command(printed: int) -> list[str]:
    """Return the words of the one command in a file, which has to be a compile; raise `PolicyError` for others."""
    commands = read_commands(os.fsdecode(contents_of(printed)))
    words = commands[0] if len(commands) == 1 else []
    if words[1:2] != ["-cc1"] or "-emit-obj" not in words:
        raise PolicyError("expected one compile from clang's driver, got another number or an error")
    if any(word.startswith(_PRINTS) for word in words):
        raise PolicyError("options that print code hide what callee features need; remove them, or use another policy")
    return words


class TwoSteps:
    """The two steps of a compile, of which the front end has run.

    Raises `PolicyError` if clang refuses the source, or the arguments are for more than one compile.

    Attributes:
        exact: whether the object of the two steps is certain to be that of one.
        switches: the `-mllvm` options of an inlining advisor whose policy uses callee features.
        version: version of clang.
        triple: target of the compile.
    """

    def __init__(self, compiler: Sequence[str], rest: Sequence[str], timeout: float) -> None:
        self._timeout = timeout
        self._bitcode = os.memfd_create("mlgo-clang-bitcode", os.MFD_CLOEXEC)
        self._warnings = message_file()
        driver = [*compiler, *(["-fcolor-diagnostics"] if os.isatty(2) else [])]
        printed = message_file()
        try:
            line = self._start_once(driver, rest, printed) or self._start_twice(driver, rest, printed)
        finally:
            os.close(printed)
        self._program, self._line = line[:2], line[2:]
        self.exact = not any(word.startswith(_OTHER_RESULTS) for word in self._line)
        self.triple = self._line[self._line.index("-triple") + 1]
        self.version = llvm_version(contents_of(self._bitcode))
        major = self.version.partition(".")[0]
        self.switches = (*INLINING, *(PRINTING_FILES if major.isdigit() and int(major) >= 18 else PRINTING))

    def _start_once(self, driver: Sequence[str], rest: Sequence[str], printed: int) -> list[str]:
        """Run the front end in the driver, and return the command that it prints, as of the compile in one step.

        The bitcode has another name than the object. Empty if other names follow from it. A start of clang takes 10 to
        20 ms of CPU time.
        """
        position, name = named_output(rest) or (-1, "")
        if position < 0 or any(word.startswith(_NAMED_BY_OUTPUT) for word in rest):
            return []
        output, log = (f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in (self._bitcode, printed))
        words = [*rest]
        words[position] = words[position].removesuffix(name) + output
        compiler = [*driver, *CLANG.without_reports, *(word for flag in _BITCODE for word in ("-Xclang", flag))]
        if "-MD" in rest or "-MMD" in rest:
            # By default the names in the list of dependencies follow from the output.
            named = {word[:3] for word in rest}
            file = os.path.basename(name)
            compiler += () if "-MF" in named else ("-MF", f"{name.removesuffix(file)}{file.rsplit('.', 1)[0]}.d")
            compiler += () if named & {"-MT", "-MQ"} else ("-MQ", name)
        environment = {**os.environ, "CC_PRINT_OPTIONS": "1", "CC_PRINT_OPTIONS_FILE": log}
        run = InteractiveCompile(compiler, words, None, self._warnings, self._timeout, environment=environment)
        if run.status != 0:
            raise PolicyError(_REFUSED)
        line = _one_command(printed) if os.fstat(printed).st_size else []
        own = next((at for at in range(len(line)) if tuple(line[at : at + len(_BITCODE)]) == _BITCODE), -1)
        places = [at for at, word in enumerate(line) if output in word]
        if own < 0 or len(places) != 1 or line[places[0] - 1 : places[0] + 1] != ["-o", output]:
            for descriptor in (self._bitcode, self._warnings, printed):
                os.ftruncate(descriptor, 0)
            return []
        line[places[0]] = name
        return line[:own] + line[own + len(_BITCODE) :]

    def _start_twice(self, driver: Sequence[str], rest: Sequence[str], printed: int) -> list[str]:
        """Run the front end by the command that the driver prints, and return the command."""
        if InteractiveCompile([*driver, "-###"], rest, None, printed, self._timeout).status != 0:
            raise PolicyError(_REFUSED)
        line, text = _one_command(printed), contents_of(printed)
        # Warnings about the command line itself.
        warnings = (row for row in text.splitlines(keepends=True) if b": warning: " in row and row[:2] != b' "')
        os.write(self._warnings, b"".join(warnings))
        front = [word for word in drop_options(line[2:], (), ("-o",)) if word != "-emit-obj"]
        words, streams = [*line[:2], *_BITCODE, "-o", "-"], (-1, self._bitcode)
        if InteractiveCompile(words, front, None, self._warnings, self._timeout, streams).status != 0:
            raise PolicyError(_REFUSED)
        return line

    def compile(
        self, network: NativeNetwork | None, advisor: Advisor | None, output: str = ""
    ) -> tuple[InteractiveCompile, bytes]:
        """Run the back end; return the compile and what clang printed in this step.

        The network is the one that decides, if it uses callee features. An empty output is that of the command line.
        """
        words = drop_options(self._line[:-1], _FORMAT, (*_FRONT_END, "-o") if output else _FRONT_END)
        back = [word for word in words if word not in _FRONT_END_ALONE]
        messages = message_file()
        try:
            remarks = () if network is None else REMARKS
            rest = [*back, *(("-o", output) if output else ()), *remarks, *_FROM_BITCODE]
            run = InteractiveCompile(self._program, rest, advisor, messages, self._timeout, (self._bitcode, -1))
            if network is None:
                printed = contents_of(messages)
            elif run.server is None:
                printed = network.other_messages(contents_of(messages))
            else:
                printed = run.server.other_messages()
        finally:
            os.close(messages)
        return run, printed

    def make_internal(self, names: frozenset[bytes]) -> int:
        """Give functions of these names internal linkage in the bitcode, and return their number."""
        from mlgo_clang.internal_linkage import make_internal

        bitcode, number = make_internal(contents_of(self._bitcode), names)
        os.pwrite(self._bitcode, bitcode, 0)
        return number

    @property
    def warnings(self) -> bytes:
        """Text that clang printed in the first step."""
        return contents_of(self._warnings)
