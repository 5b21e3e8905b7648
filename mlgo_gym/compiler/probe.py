"""The header of an advisor's channel, from one compile of a tiny module; the result is kept on disk."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from mlgo_gym.cache import JsonCache, key_of
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.errors import CompilerError, MlgoError, ToolchainError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.storage.temporary_folders import temporary_folder

_memory = JsonCache("probes")

_LIVE_VALUES = 40
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Header of an advisor's channel, and payload of the first decision in the tiny module."""

    header: LogHeader
    first: bytes


@lru_cache(maxsize=256)
def probe(toolchain: Toolchain, advisor: Advisor, flags: tuple[str, ...] = ()) -> Probe:
    """Return the probe of an advisor; made once per compiler and kept on disk.

    The flags are `-cc1` arguments that change its header, for instance a vocabulary of embeddings. Raises
    `ToolchainError` with clang's diagnostics if this clang has no interactive mode for the advisor.
    """
    key = key_of(toolchain.identity, advisor.name, advisor.flags("BASE"), flags)
    with suppress(KeyError, TypeError, ValueError):  # unknown, or written by another release
        known = _memory.get(key) or {}
        return Probe(LogHeader.parse(str(known["header"]).encode()), bytes.fromhex(known["first"]))
    result = _measure(toolchain, advisor, flags)
    _memory.put(key, {"header": result.header.json, "first": result.first.hex()})
    return result


def _measure(toolchain: Toolchain, advisor: Advisor, flags: tuple[str, ...]) -> Probe:
    with temporary_folder() as folder:
        source = folder / "probe.ll"
        source.write_text(advisor.trial or _tiny_module())
        command = [*toolchain.command, "-cc1", "-Oz", "-emit-obj", "-w", *flags, "-x", "ir", str(source)]
        probes: list[Probe] = []

        def advise(decision: Decision) -> bytes:
            header = session.header()
            assert header is not None, "clang has requested a decision"
            probes.append(Probe(header, decision.payload))
            return advisor.answer(header, decision.payload)

        try:
            with Session(command, [advisor]) as session:
                object_sizes(drive(session, advise, _TIMEOUT).object_bytes)
        except MlgoError as error:
            status = f" ({error.kind})" if isinstance(error, CompilerError) else ""
            raise ToolchainError(
                f"expected {toolchain.command[0]} (clang {toolchain.version_text}) to compile a tiny module with its "
                f"{advisor.name} advisor in interactive mode, got an error{status}: {error}; choose another clang"
            ) from error
    if not probes:
        raise ToolchainError(
            f"expected decisions of the {advisor.name} advisor of {toolchain.command[0]} (clang "
            f"{toolchain.version_text}), got none: this build has no interactive mode; choose another clang, or the "
            "bundled one"
        )
    return probes[0]


def _tiny_module() -> str:
    """Return textual IR for clang 17 to 22 with calls to inline and more live values than registers."""
    loads = "\n".join(
        f"  %p{n} = getelementptr i64, ptr %p, i64 {n}\n  %v{n} = load volatile i64, ptr %p{n}"
        for n in range(_LIVE_VALUES)
    )
    stores = "\n".join(f"  store volatile i64 %v{n}, ptr %p{n}" for n in range(_LIVE_VALUES))
    return f"""\
define internal i64 @callee(i64 %x) {{
  %y = mul i64 %x, 3
  ret i64 %y
}}
declare void @use(i64)
define void @caller(ptr %p, i64 %x) {{
{loads}
  %r = call i64 @callee(i64 %x)
  call void @use(i64 %r)
  %s = call i64 @callee(i64 %r)
  call void @use(i64 %s)
{stores}
  ret void
}}
"""
