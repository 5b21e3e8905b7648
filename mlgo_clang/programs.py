"""Programs that a compile starts beside the advised clang, such as the front end, and the files that it reads."""

from __future__ import annotations

import os

from mlgo_clang.command_lines import drop_options, expand_response_files
from mlgo_clang.errors import PolicyError, ProtocolError
from mlgo_clang.files import contents_of, message_file
from mlgo_clang.interactive import InteractiveCompile
from mlgo_clang.invocation import is_stream
from mlgo_clang.settings import DEFAULT_TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BITCODE_FLAGS = ("-emit-llvm", "-g0", "-w", "-Xclang", "-disable-llvm-passes", "-Xclang", "-emit-llvm-uselists")
_SIDE_OUTPUTS = frozenset(("-pipe", "-c"))
_WITH_A_VALUE = frozenset(("-o", "--serialize-diagnostics", "-serialize-diagnostics"))
_SIDE_OUTPUTS_JOINED = ("-o", "-fsave-optimization", "-foptimization-record", "-gsplit-dwarf")


def run_to_end(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    """Run a program with an empty standard input; return its exit status, standard output and standard error.

    The program ends with this process. One that does not end in time is stopped, which raises a PolicyError.
    """
    streams = [message_file() for _ in range(3)]
    try:
        ends = streams[0], streams[1]
        run = InteractiveCompile(command[:1], command[1:], None, streams[2], seconds, ends, environment=environment)
        return run.status, contents_of(streams[1]), contents_of(streams[2])
    except ProtocolError:
        name = os.path.basename(command[0])
        raise PolicyError(f"{name} did not end within {seconds:g} s; raise --mlgo-timeout") from None
    finally:
        for stream in streams:
            os.close(stream)


def front_end_bitcode(compiler: Sequence[str], rest: Sequence[str], seconds: float = DEFAULT_TIMEOUT) -> bytes:
    """Return the module that the front end makes of a source, before any optimisation and without debug information.

    Raise PolicyError if the front end refuses the source, for which the compile itself prints the reason.
    """
    words = drop_options(expand_response_files(rest), _SIDE_OUTPUTS_JOINED, _WITH_A_VALUE)
    words = [word for word in words if word not in _SIDE_OUTPUTS]
    # The flags go before a `--`, and after any -g. The last -MF counts, also after `-Wp,-MD,…`.
    end = words.index("--") if "--" in words else len(words)
    command = [*compiler, *words[:end], *_BITCODE_FLAGS, "-MF", os.devnull, "-c", "-o", "-", *words[end:]]
    # With the current date in __DATE__ a source would become another module every day.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    status, bitcode, _ = run_to_end(command, seconds, environment)
    if status != 0 or not bitcode:
        raise PolicyError("the front end does not compile the source")
    return bitcode


class SourceList:
    """A file in memory, open until this process ends, to which clang writes the names of the files that it includes."""

    def __init__(self) -> None:
        self._file = -1

    def stream(self) -> str:
        """Return the first included file that can be read only once; empty without one, and before a compile."""
        if self._file < 0:
            return ""
        text = os.fsdecode(contents_of(self._file))
        return next(filter(is_stream, dict.fromkeys(text.splitlines())), "")

    def read(self) -> tuple[str, ...]:
        """Return the options of the next compile of the source, of which the first writes the list.

        Raise `PolicyError` if no compile can read the files again.
        """
        if stream := self.stream():
            raise PolicyError(f"expected files that can be read twice, got {stream}; write it to a regular file")
        if self._file >= 0:
            return ()
        self._file = os.memfd_create("mlgo-clang-sources", os.MFD_CLOEXEC)
        return ("-Xclang", "-header-include-file", "-Xclang", f"/proc/{os.getpid()}/fd/{self._file}")
