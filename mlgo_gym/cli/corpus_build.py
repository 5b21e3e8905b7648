"""`mlgo-gym corpus extract`, `make`, `combine` and `import`: corpora from builds, bitcode, corpora and collections.

Flags are those of LLVM's mlgo-utils, with dashes or with underscores.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import FAILED, JsonOption, say, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.combine import combine_corpora
from mlgo_gym.corpus.extract import extract_corpus
from mlgo_gym.corpus.make import make_corpus
from mlgo_gym.corpus.object_list import from_local_thinlto, read_object_list
from mlgo_gym.corpus.parquet import import_parquet
from mlgo_gym.errors import CorpusError

OutputOption = Annotated[Path, typer.Option("--output-dir", "--output_dir", help="The corpus folder.")]
VerbosityOption = Annotated[
    int, typer.Option(help="0: name what is skipped; -1: only count it; -2: print nothing.", min=-2, max=1)
]


def extract(
    *,
    output_dir: OutputOption,
    source: Annotated[
        Path | None,
        typer.Option("--input", help="compile_commands.json, a linker parameter file, aquery output, or a folder."),
    ] = None,
    input_type: Annotated[
        str, typer.Option("--input-type", "--input_type", help="json, params, directory or bazel_aquery.")
    ] = "json",
    num_workers: Annotated[
        int | None, typer.Option("--num-workers", "--num_workers", min=1, help="Default: all processors.")
    ] = None,
    llvm_objcopy_path: Annotated[
        str | None,
        typer.Option("--llvm-objcopy-path", "--llvm_objcopy_path", help="Use this instead of pyelftools."),
    ] = None,
    obj_base_dir: Annotated[
        Path | None,
        typer.Option("--obj-base-dir", "--obj_base_dir", help="What object paths are relative to. Default: here."),
    ] = None,
    cmd_filter: Annotated[
        str | None,
        typer.Option("--cmd-filter", "--cmd_filter", help="Take modules with a flag that this expression matches."),
    ] = None,
    thinlto_build: Annotated[
        str | None, typer.Option("--thinlto-build", "--thinlto_build", help="distributed or local.")
    ] = None,
    cmd_section_name: Annotated[
        str, typer.Option("--cmd-section-name", "--cmd_section_name", help="For Mach-O: __LLVM,__cmdline.")
    ] = ".llvmcmd",
    bitcode_section_name: Annotated[
        str, typer.Option("--bitcode-section-name", "--bitcode_section_name", help="For Mach-O: __LLVM,__bitcode.")
    ] = ".llvmbc",
    trust: Annotated[bool, typer.Option(help="Take modules whatever their flags.")] = False,
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus of a build that embedded its bitcode (-Xclang -fembed-bitcode=all). Exit 1 if any is skipped."""
    if thinlto_build == "local":
        if source is not None:
            raise CorpusError("a local ThinLTO build is found below --obj_base_dir; leave --input out")
        found = from_local_thinlto(obj_base_dir or Path.cwd())
    elif source is None:
        raise CorpusError("--input is missing; give it, or --thinlto_build=local")
    else:
        found = read_object_list(source, input_type, obj_base_dir)
    with progress_over(len(found.objects), "Extracting") as advance:
        extraction = extract_corpus(
            found,
            output_dir,
            thinlto_build=thinlto_build,
            cmd_filter=cmd_filter,
            llvm_objcopy=llvm_objcopy_path,
            cmd_section=cmd_section_name,
            bitcode_section=bitcode_section_name,
            jobs=num_workers,
            trust=trust,
            progress=advance,
        )
    left_out = f", {extraction.excluded} left out by the filter" if extraction.excluded else ""
    _report(as_json, output_dir, extraction.modules, extraction.skipped, verbosity, left_out)


def make(
    *,
    input_dir: Annotated[Path, typer.Option("--input-dir", "--input_dir", help="The folder with .bc files.")],
    output_dir: OutputOption,
    default_args: Annotated[
        str, typer.Option("--default-args", "--default_args", help="The flags of every module, in one word.")
    ] = "",
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus of any bitcode files. Exit 1 if any is skipped."""
    try:
        arguments = shlex.split(default_args)
    except ValueError as error:
        raise CorpusError(f"--default_args {default_args!r} cannot be split into words: {error}") from error
    with progress_over(None, "Copying") as advance:
        making = make_corpus(input_dir, output_dir, default_args=arguments, progress=advance)
    _report(as_json, output_dir, making.modules, making.skipped, verbosity)


def combine(
    *,
    root_dir: Annotated[Path, typer.Option("--root-dir", "--root_dir", help="The folder with corpora in its folders.")],
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Describe the corpora in a folder as one corpus; nothing is copied."""
    _report(as_json, root_dir, combine_corpora(root_dir), [], verbosity)


def import_command(
    *,
    parquet: Annotated[list[Path], typer.Option(help="A Parquet file with a column 'content'; can be repeated.")],
    output_dir: OutputOption,
    language: Annotated[
        list[str] | None, typer.Option(help="Take only this language, as in the column 'language'; can be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take no more modules than this.")] = None,
    verbosity: VerbosityOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus of a collection of bitcode, such as ComPile. Exit 1 if any row is skipped."""
    with progress_over(None, "Importing") as advance:
        result = import_parquet(parquet, output_dir, languages=language or (), limit=limit, progress=advance)
    repeated = f", {result.duplicates} rows repeated" if result.duplicates else ""
    _report(as_json, output_dir, result.modules, result.skipped, verbosity, repeated)


def _report(
    as_json: bool,
    output: Path,
    modules: Sequence[str],
    skipped: Sequence[tuple[str, str]],
    verbosity: int,
    more: str = "",
) -> None:
    data = {"output": output, "modules": len(modules), "skipped": dict(skipped)}
    text = "" if verbosity == -2 else f"{output}: {len(modules)} modules{more}, {len(skipped)} skipped"
    show(as_json, data, text)
    if verbosity > -1:
        for name, reason in skipped:
            say(f"skipped {name}: {reason}", err=True)
    if skipped:
        raise typer.Exit(FAILED)
