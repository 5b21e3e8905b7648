"""Generate the list of arguments that an untrusted corpus may have from clang's and LLVM's option tables.

    python .ci/option_tables.py CLANG... --tables Options.inc... > mlgo_gym/corpus/allowed_arguments.json

clang's table is the generated `Options.inc` (in `clang/Driver` or `clang/Options` of Debian's `libclang-NN-dev`). It
has the kind and the group of each option, the class of options that it sets, and the parser of its value. LLVM's
table is the output of `-mllvm -help-list-hidden`. An argument is allowed if it sets the code, its target or its
diagnostics, and its value is a number or one of several words. Options with a free text are allowed if they are
listed here, because nothing opens that text as a file. The tables of several releases are merged.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A bool, a number or a word of a list: none of them can name a file (llvm/include/llvm/Option/OptParser.td).
_CLOSED = _names("""
    makeBooleanOptionNormalizer normalizeSimpleFlag normalizeSimpleNegativeFlag makeFlagToValueNormalizer
    normalizeSimpleEnum normalizeStringIntegral
""")
_CLASSES = (
    "CODEGEN",
    "LANG",
    "TARGET",
    "DIAG",
    "DEPENDENCY_OUTPUT",
    "HEADER_SEARCH",
    "PREPROCESSOR",
    "ANALYZER",
    "FILE_SYSTEM",
)
"""Classes of options that shape the code, or that only a front end reads, which does not run for bitcode."""

_TEXTS = _names("""
    CodeGenOpts.BBSections CodeGenOpts.CoverageCompilationDir CodeGenOpts.DebugCompilationDir CodeGenOpts.DebugPass
    CodeGenOpts.DefaultFunctionAttrs CodeGenOpts.DependentLibraries CodeGenOpts.DwarfDebugFlags CodeGenOpts.FloatABI
    CodeGenOpts.InstrProfileOutput CodeGenOpts.LimitFloatPrecision CodeGenOpts.LinkerOptions
    CodeGenOpts.LoaderReplaceableFunctionNames CodeGenOpts.MainFileName CodeGenOpts.MSSecureHotPatchFunctionsList
    CodeGenOpts.NoTocDataVars CodeGenOpts.ObjectFilenameForDebug CodeGenOpts.PatchableFunctionEntrySection
    CodeGenOpts.PreferVectorWidth CodeGenOpts.ProfileExcludeFiles CodeGenOpts.ProfileFilterFiles CodeGenOpts.Reciprocals
    CodeGenOpts.RecordCommandLine CodeGenOpts.SplitDwarfFile CodeGenOpts.StackProtectorGuard
    CodeGenOpts.StackProtectorGuardReg CodeGenOpts.StackProtectorGuardSymbol CodeGenOpts.SymbolPartition
    CodeGenOpts.TocDataVarsUserSpecified CodeGenOpts.TrapFuncName CodeGenOpts.UniqueSourceFileIdentifier
    LangOpts->CUID LangOpts->CommentOpts LangOpts->ModuleFeatures LangOpts->ModuleName LangOpts->ObjCConstantStringClass
    LangOpts->OverflowPatternExclusionValues DiagnosticOpts->SystemHeaderWarningsModules DiagnosticOpts->UndefPrefixes
    DependencyOutputOpts.OutputFile DependencyOutputOpts.Targets HeaderSearchOpts->ModuleFormat
    HeaderSearchOpts->ModuleUserBuildPath HeaderSearchOpts->ResourceDir HeaderSearchOpts->Sysroot
    PreprocessorOpts->MacroIncludes PreprocessorOpts->ImplicitPCHInclude FrontendOpts.AuxTriple
    FileSystemOpts.WorkingDir
""")
"""Options with a free text that is stored in the object file, or that nothing reads for bitcode.

Files that `-dependency-file` and `-include-pch` name are neither written nor read for bitcode."""

_READ = _names("""
    CodeGenOpts.ProfileInstrumentUsePath CodeGenOpts.SampleProfileFile CodeGenOpts.MemoryProfileUsePath
    CodeGenOpts.ProfileRemappingFile CodeGenOpts.SanitizeCoverageAllowlistFiles
    CodeGenOpts.SanitizeCoverageIgnorelistFiles CodeGenOpts.SanitizeMetadataIgnorelistFiles
    CodeGenOpts.MSSecureHotPatchFunctionsFile
""")
"""Options that name a file which shapes the code; the corpus has to contain it."""

_REFUSED = frozenset({"CodeGenOpts.EmitGcovNotes", "CodeGenOpts.EmitGcovArcs"})
"""Switches that write a file which the bitcode names (`!llvm.gcov`)."""

_FRONT_END_FLAGS = frozenset({"FrontendOpts.DisableFree", "FrontendOpts.ShowStats"})
_ACTIONS = frozenset({"-emit-obj", "-emit-llvm", "-emit-llvm-bc", "-emit-llvm-only", "-emit-codegen-only", "-S"})

_GROUPS = _names("""
    O_Group W_Group W_value_Group R_Group R_value_Group f_Group f_clang_Group fsan_cov_Group m_Group g_Group
    g_flags_Group m_hexagon_Features_Group LongDouble_Group opencl_Group d_Group I_Group i_Group clang_i_Group
    CompileOnly_Group Preprocessor_Group M_Group
""")
_REFUSED_NAMES = _names("""
    -fthinlto-index= -fsanitize-ignorelist= -fsanitize-blacklist= -fsanitize-system-ignorelist= -ivfsoverlay -vfsoverlay
    -frandomize-layout-seed-file= -fmodule-file= -fprebuilt-module-path= --embed-dir= -cc1as -mcpu=help -mtune=help
    -verify -verify-ignore-unexpected -gpulibc -nogpulibc --offloadlib -iapinotes-modules
""")
"""Arguments of allowed groups, or flags of no group, that name a file which is read, or have other effects."""

_MANUAL = _names("""
    -debug-info-kind= -coverage-version= -exception-model= -target-sdk-version= -darwin-target-variant-sdk-version=
    -gsimple-template-names= -stdlib= -unwindlib= -mtp -msign-return-address-key= -aux-target-cpu -aux-target-feature
    -internal-isystem -internal-externc-isystem -internal-iframework -c-isystem -objc-isystem -objcxx-isystem -F
    -dumpdir -source-date-epoch -opt-record-passes -opt-record-format -object-file-name -triple= -triple
    -working-directory=
""")
"""Arguments with a value and without group and class that name no file that is opened for bitcode."""

_OPTION = re.compile(
    r"^(?:(?P<setting>[A-Z_]+)_)?OPTION(?:_WITH_MARSHALLING)?\(\w+, (?:\d+ /\* (?P<name>.*?) \*/|\"(?P<older>.*?)\"), "
    r"\w+, (?P<kind>\w+), (?P<group>\w+), (?P<alias>\w+), (?:nullptr|\"(?:[^\"\\]|\\.)*\"), [\w |]+, "
    r"(?P<visible>[\w |]+), \d+,",
    re.MULTILINE,
)
_VALUES = re.compile(r"\}\}\), (?:nullptr|\"[^\"]*\"), \"([^\"]*)\", \d+")
_KEY = re.compile(r"\b(\w+Opts(?:\.|->)\w+)")
_PARSED = re.compile(r"\b(normalize\w+|make\w+Normalizer)")

_LLVM_OPTION = re.compile(r"^  --?(?P<name>[\w.+-]+)(?P<value>\[?=<[^>]*>\]?)?\s+- (?P<text>.*)$")
_LLVM_CHOICE = re.compile(r"^    =(?P<choice>\S*)")
_LLVM_NUMBERS = frozenset({"", "=<uint>", "=<int>", "=<ulong>", "=<long>", "=<number>", "=<N>", "=<x>", "=<value>"})
_LLVM_REFUSED = _names("""
    dot view viewer viewing window graphviz website diff exec exe plugin file files filename dir directory directories
    dump dumps write writes written export save saves temps temp socket interactive help version verify-each
""")
"""Words in the name, the choices or the description of options that may write a file or start a program."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of clang's table.

    Attributes:
        name: spelling, with `=` if that joins the value.
        kind: `Flag`, `Joined`, `Separate`, `JoinedOrSeparate`, `CommaJoined`, ….
        group: group, or `INVALID`.
        visible: drivers that know it.
        setting: class of options that it sets, such as `CODEGEN`; empty if code parses it.
        key: member that it sets, such as `CodeGenOpts.StackUsageOutput`.
        parsed: parser of its value.
        values: its known values.
    """

    name: str
    kind: str
    group: str
    visible: str
    setting: str = ""
    key: str = ""
    parsed: str = ""
    values: tuple[str, ...] = ()


def read_options(text: str) -> list[Option]:
    """Return the options of a generated `Options.inc`; an entry that sets an option replaces its other entries."""
    matches = list(_OPTION.finditer(text))
    found: dict[tuple[str, str], Option] = {}
    for match, following in zip_longest(matches, matches[1:]):
        name, kind, setting = match["name"] or match["older"], match["kind"], match["setting"] or ""
        rest = text[match.end() : following.start() if following else len(text)]
        key, parsed = (_KEY.search(rest), _PARSED.search(rest)) if setting else (None, None)
        values = _VALUES.search(rest)
        option = Option(
            name,
            kind,
            match["group"],
            match["visible"],
            setting,
            key[1] if key else "",
            parsed[1] if parsed else "",
            tuple(filter(None, values[1].split(","))) if values else (),
        )
        if setting or (name, kind) not in found:
            found[name, kind] = option
    return list(found.values())


def is_allowed(option: Option) -> bool:
    """Return whether an untrusted corpus may have an option after `-cc1`."""
    if "CC1Option" not in option.visible or option.name in _REFUSED_NAMES or option.key in _REFUSED:
        return False
    if option.setting == "FRONTEND":
        return option.key in _FRONT_END_FLAGS or option.key in _TEXTS
    if option.setting:
        return option.setting in _CLASSES and (option.parsed in _CLOSED or option.key in _TEXTS | _target_texts(option))
    if option.group == "Action_Group":
        return option.name in _ACTIONS
    return option.group in _GROUPS or option.name in _MANUAL or (option.group == "INVALID" and option.kind == "Flag")


def _target_texts(option: Option) -> frozenset[str]:
    return frozenset({option.key}) if option.setting == "TARGET" else frozenset()


def read_llvm_options(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the name of each allowed option in `-help-list-hidden`, and whether it takes a value."""
    entries: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        option = _LLVM_OPTION.match(line)
        if option:
            entries.append((option, [option["name"], option["text"]]))
        elif entries and _LLVM_CHOICE.match(line):
            entries[-1][1].append(line)
    refused = {option["name"] for option, texts in entries if _LLVM_REFUSED.intersection(_words(texts))}
    for option, texts in entries:
        value = option["value"] or ""
        chosen = value != "=<value>" or len(texts) > 2
        if option["name"] not in refused and chosen and value.strip("[]") in _LLVM_NUMBERS:
            yield option["name"], bool(value)


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.split(r"[^a-z]+", text.lower())}


def allowed_arguments(tables: Sequence[str], lists: Sequence[str]) -> dict[str, object]:
    """Return the allowed arguments of several option tables of clang and lists of LLVM, as JSON-able values."""
    options = [option for table in tables for option in read_options(table)]
    refused = {option.name for option in options if "CC1Option" in option.visible and not is_allowed(option)}
    allowed = [option for option in options if is_allowed(option) and option.name not in refused]
    forms = _by_kind(allowed)
    llvm = dict(pair for text in lists for pair in read_llvm_options(text))
    return {
        "cc1": forms,
        # clang takes the longest name that matches: these begin like an argument with a joined value.
        "refused": sorted(name for name in refused if name.startswith(tuple(forms["joined"]))),
        "read": sorted({option.name for option in options if option.key in _READ}),
        "llvm": {
            "flag": sorted(name for name, takes in llvm.items() if not takes),
            "value": sorted(name for name, takes in llvm.items() if takes),
        },
    }


def _by_kind(options: Sequence[Option]) -> dict[str, list[str]]:
    kinds = {
        "flag": ("Flag",),
        "joined": ("Joined", "CommaJoined", "JoinedOrSeparate"),
        "separate": ("Separate", "JoinedOrSeparate"),
    }
    return {form: sorted({option.name for option in options if option.kind in those}) for form, those in kinds.items()}


def _wrapped(value: object) -> object:
    """Return JSON-able data with lists of names joined to readable lines."""
    if isinstance(value, dict):
        return {key: _wrapped(inner) for key, inner in value.items()}
    return textwrap.wrap(" ".join(value), 150, break_on_hyphens=False) if isinstance(value, list) else value


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the allowed arguments as JSON."""
    parser = argparse.ArgumentParser(description="Print the arguments that an untrusted corpus may have.")
    parser.add_argument("clang", nargs="*", help="programs that print LLVM's options, such as clang-22 or 'zig clang'")
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="generated Options.inc of clang")
    chosen = parser.parse_args(arguments)
    lists, versions = [], []
    for program in chosen.clang:
        words = program.split()
        ask = [*words, "-mllvm", "-help-list-hidden", "-x", "c", "-c", "/dev/null", "-o", "/dev/null"]
        lists.append(subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False).stdout)
        ask = [*words, "--version"]
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False).stdout
        versions.append(re.findall(r"clang version (\S+)", answer)[0])
    tables = [path.read_text(encoding="utf-8") for path in chosen.tables]
    named = {
        "made_by": "python .ci/option_tables.py CLANG... --tables Options.inc...",
        "llvm_options_of": versions,
    }
    sys.stdout.write(json.dumps(_wrapped({**named, **allowed_arguments(tables, lists)}), indent=1) + "\n")


if __name__ == "__main__":
    main()
