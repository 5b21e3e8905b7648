"""`mlgo-gym corpus extract`, `make`, `combine` and `import`: corpora from builds, bitcode, corpora and collections.

Options are those of LLVM's mlgo-utils, with dashes or with underscores.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from mlgo_gym.cli.output import FAILED, JsonOption, echo, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.folder import CorpusReport
from mlgo_gym.corpus.importing import combine_corpora, import_parquet, make_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.object_list import from_local_thinlto, read_object_list
from mlgo_gym.errors import CorpusError


def _option(name: str, text: str, **settings: Any) -> Any:
    """Return an option that is spelled with dashes or with underscores."""
    return typer.Option(f"--{name.replace('_', '-')}", f"--{name}", help=text, **settings)


OutputOption = Annotated[Path, _option("output_dir", "Folder of the corpus.")]
VerbosityOption = Annotated[
    int, typer.Option(help="0: list skipped inputs; -1: only count them; -2: print nothing.", min=-2, max=1)
]


def extract(
    *,
    output_dir: OutputOption,
    source: Annotated[
        Path | None,
        typer.Option("--input", help="compile_commands.json, a linker parameter file, aquery output, or a folder."),
    ] = None,
    input_type: Annotated[str, _option("input_type", "json, params, directory or bazel_aquery.")] = "json",
    num_workers: Annotated[
        int | None, _option("num_workers", "Number of threads. Default: one per CPU.", min=1)
    ] = None,
    llvm_objcopy_path: Annotated[
        str | None, _option("llvm_objcopy_path", "llvm-objcopy to use instead of pyelftools.")
    ] = None,
    obj_base_dir: Annotated[
        Path | None, _option("obj_base_dir", "Folder of relative object paths. Default: the working directory.")
    ] = None,
    cmd_filter: Annotated[
        str | None, _option("cmd_filter", "Regular expression; modules without a matching flag are excluded.")
    ] = None,
    thinlto_build: Annotated[str | None, _option("thinlto_build", "distributed or local.")] = None,
    cmd_section_name: Annotated[
        str, _option("cmd_section_name", "Section with the flags; for Mach-O __LLVM,__cmdline.")
    ] = ".llvmcmd",
    bitcode_section_name: Annotated[
        str, _option("bitcode_section_name", "Section with the bitcode; for Mach-O __LLVM,__bitcode.")
    ] = ".llvmbc",
    trust_flags: Annotated[
        bool, typer.Option(help="Also extract modules with flags that may do more than shape code.")
    ] = False,
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Extract a corpus from a build with embedded bitcode (-Xclang -fembed-bitcode=all). Exit 1 if any is skipped."""
    if thinlto_build == "local":
        if source is not None:
            raise CorpusError("expected no --input with a local ThinLTO build, which is below --obj_base_dir; omit it")
        found = from_local_thinlto(obj_base_dir or Path.cwd())
    elif source is None:
        raise CorpusError("expected --input or --thinlto_build=local, got neither")
    else:
        found = read_object_list(source, input_type, obj_base_dir)
    with progress_over(len(found.objects), "Extracting") as advance:
        report = extract_corpus(
            found,
            output_dir,
            thinlto_build=thinlto_build,
            cmd_filter=cmd_filter,
            llvm_objcopy=llvm_objcopy_path,
            cmd_section=cmd_section_name,
            bitcode_section=bitcode_section_name,
            jobs=num_workers,
            trust_flags=trust_flags,
            progress=advance,
        )
    excluded = f", {report.excluded} excluded by the filter" if report.excluded else ""
    _show(as_json, output_dir, report, verbosity, excluded)


def make(
    *,
    input_dir: Annotated[Path, _option("input_dir", "Folder with .bc files.")],
    output_dir: OutputOption,
    default_args: Annotated[str, _option("default_args", "Flags of every module, as one argument.")] = "",
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus from bitcode files. Exit 1 if any is skipped."""
    try:
        arguments = shlex.split(default_args)
    except ValueError as error:
        raise CorpusError(f"expected shell words in --default_args, got {default_args!r}: {error}") from error
    with progress_over(None, "Copying") as advance:
        report = make_corpus(input_dir, output_dir, default_args=arguments, progress=advance)
    _show(as_json, output_dir, report, verbosity)


def combine(
    *,
    root_dir: Annotated[Path, _option("root_dir", "Folder whose subfolders are corpora.")],
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Describe the corpora in a folder as one corpus, without copying."""
    _show(as_json, root_dir, CorpusReport(combine_corpora(root_dir)), verbosity)


def import_command(
    *,
    parquet: Annotated[list[Path], typer.Option(help="Parquet file with a column 'content'; repeatable.")],
    output_dir: OutputOption,
    language: Annotated[
        list[str] | None, typer.Option(help="Value of the column 'language' to import; repeatable. Default: all.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of modules.")] = None,
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Import a collection of bitcode in Parquet files, such as ComPile. Exit 1 if any row is skipped."""
    with progress_over(None, "Importing") as advance:
        report = import_parquet(parquet, output_dir, languages=language or (), limit=limit, progress=advance)
    duplicates = f", {report.duplicates} duplicates" if report.duplicates else ""
    _show(as_json, output_dir, report, verbosity, duplicates)


def _show(as_json: bool, output: Path, report: CorpusReport, verbosity: int, details: str = "") -> None:
    data = {"output": output, "modules": len(report.modules), "skipped": dict(report.skipped)}
    summary = f"{output}: {len(report.modules)} modules{details}, {len(report.skipped)} skipped"
    show(as_json, data, "" if verbosity == -2 else summary)
    if verbosity > -1:
        for name, reason in report.skipped:
            echo(f"skipped {name}: {reason}", err=True)
    if report.skipped:
        raise typer.Exit(FAILED)
