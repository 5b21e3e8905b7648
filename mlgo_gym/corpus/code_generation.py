"""The part of a `-cc1` command line that still matters when its bitcode is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from mlgo_gym.corpus.arity import arity

_DROPPED = frozenset(
    """
    -o -x -c -E -dumpdir -source-date-epoch
    -main-file-name -dependency-file -MT -MP -MG -sys-header-deps -module-file-deps -dependency-dot
    -header-include-file -serialize-diagnostic-file -diagnostic-log-file -opt-record-file -opt-record-passes
    -opt-record-format -split-dwarf-file -split-dwarf-output -stack-usage-file
    -D -U -I -F -iquote -isystem -isysroot -idirafter -iprefix -iwithprefix -iwithprefixbefore -iwithsysroot
    -internal-isystem -internal-externc-isystem -internal-iframework -c-isystem -cxx-isystem -stdlib++-isystem
    -include -include-pch -imacros -resource-dir -nostdsysteminc -nobuiltininc -nostdinc++ -undef
    -w -pedantic -pedantic-errors -ferror-limit -fcolor-diagnostics -fno-spell-checking
    -fdeprecated-macro -fskip-odr-check-in-gmf -fcxx-exceptions -fno-rtti -fgnu89-inline -fcommon -fno-common
    -trigraphs -fansi-escape-codes -fno-caret-diagnostics
    """.split()  # noqa: SIM905 - a word list
)
_DROPPED_JOINED = (
    "-D", "-U", "-I", "-W", "-R", "-std=", "-MT", "-fdiagnostics-", "-fno-diagnostics-", "-ferror-limit=",
    "-fmessage-length=", "-ftemplate-depth=", "-fconstexpr-", "-fbracket-depth=", "-fvisibility", "-fgnuc-version=",
    "-fdebug-compilation-dir=", "-fcoverage-compilation-dir=", "-fmacro-prefix-map=", "-fdebug-prefix-map=",
    "-fcoverage-prefix-map=", "-ffile-prefix-map=", "-fmodule", "-fimplicit-module", "-fno-implicit-module",
    "-fchar8_t", "-fno-char8_t", "-ftime-trace", "-fcrash-diagnostics-dir=", "-object-file-name=",
    "-coverage-notes-file=", "-coverage-data-file=", "-femit-coverage-", "-coverage-version=", "-stats-file=",
    "-fsanitize-ignorelist=", "-fsanitize-system-ignorelist=", "-fprofile-list=", "-fxray-always-instrument=",
    "-fxray-never-instrument=", "-fxray-attr-list=", "-frandomize-layout-seed-file=",
)  # fmt: skip


def code_generation_flags(line: Sequence[str]) -> tuple[str, ...]:
    """Return the flags for the `.cmd` file of a module: `-cc1` first, no output, no language, no input.

    Target, processor, relocation model, frame pointers, sections, level and every `-mllvm` stay. What only the front
    end, the preprocessor or its side outputs read goes: it depends on the folder of the sources, breaks a compile of
    bitcode, or is unknown to another version of clang.

    Args:
        line: a whole `-cc1` command line as `clang -###` prints it; its last word is the input.
    """
    kept: list[str] = []
    position, end = 0, len(line) - 1
    while position < end:
        flag = line[position]
        following = position + 1 + arity(flag)
        if flag not in _DROPPED and not flag.startswith(_DROPPED_JOINED):
            kept += line[position:following]
        position = following
    return tuple(kept)
