"""What a clang can do: its advisors, proven by compiling a tiny module with each, and remembered on disk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mlgo_gym.errors import CompilerError, MlgoError, ToolchainError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import JsonCache, key_of
from mlgo_gym.storage.leftovers import temporary_folder

_memory = JsonCache("probes")

_LIVE_VALUES = 40
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What an advisor of a clang said of itself.

    Attributes:
        header: the header of its channel: features and advice.
        decisions: how many questions the tiny module raised; all were answered and an object came out.
        first: the features of the first of them, the bytes of one observation.
    """

    header: LogHeader
    decisions: int
    first: bytes


@lru_cache(maxsize=256)
def probe(toolchain: Toolchain, advisor: Advisor, flags: tuple[str, ...] = ()) -> Probe:
    """Return what an advisor of a clang asks; measured once per compiler and remembered on disk.

    Args:
        toolchain: the compiler.
        advisor: which of its advisors.
        flags: `-cc1` arguments that change what it asks, for instance a vocabulary of embeddings.

    Raises:
        ToolchainError: this clang cannot be asked; the text holds clang's own words.
    """
    key = key_of(toolchain.identity, advisor.name, advisor.flags("BASE"), flags)
    known = _memory.get(key)
    if known is not None:
        try:
            header = LogHeader.from_json(known["header"])
            return Probe(header, int(known["decisions"]), bytes.fromhex(known["first"]))
        except (KeyError, TypeError, ValueError):
            pass  # a record of another release of ours: measure again
    result = _measure(toolchain, advisor, flags)
    _memory.put(key, {"header": result.header.to_json(), "decisions": result.decisions, "first": result.first.hex()})
    return result


def _measure(toolchain: Toolchain, advisor: Advisor, flags: tuple[str, ...]) -> Probe:
    with temporary_folder() as folder:
        source = folder / "probe.ll"
        source.write_text(advisor.trial or _tiny_module())
        command = [*toolchain.command, "-cc1", "-Oz", "-emit-obj", "-w", *flags, "-x", "ir", str(source)]
        try:
            with Session(command, [advisor]) as session:
                decisions, first = 0, b""
                while (decision := session.wait(_TIMEOUT)) is not None:
                    decisions += 1
                    first = first or decision.payload
                    header = session.header()
                    assert header is not None, "who asks has sent a header"
                    session.advise(advisor.answer(header, decision.payload))
                header = session.header()
                object_sizes(session.finish(_TIMEOUT).object_bytes)
        except MlgoError as error:
            status = f" ({error.kind})" if isinstance(error, CompilerError) else ""
            raise ToolchainError(
                f"{toolchain.command[0]} (clang {toolchain.version_text}) was to compile a tiny module with its "
                f"{advisor.name} advisor asking us, and did not{status}: {error}"
            ) from error
    if header is None or not decisions:
        raise ToolchainError(
            f"{toolchain.command[0]} (clang {toolchain.version_text}) compiled a tiny module and its {advisor.name} "
            "advisor never asked: this build lacks the interactive mode; choose another clang, or the bundled one"
        )
    return Probe(header, decisions, first)


def _tiny_module() -> str:
    """Return textual IR that clang 17 to 22 read: one call to inline, and more live values than registers."""
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
