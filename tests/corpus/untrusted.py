"""Command lines that an untrusted corpus may contain."""

from pathlib import Path

from mlgo_gym.corpus.folder import write_description

BENIGN = ("-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz", "-mrelocation-model", "pic")


def hostile_arguments(target: str) -> dict[str, tuple[str, ...]]:
    """Return arguments by description that write or load the file `target`."""
    return {
        "a plugin": ("-load", target),
        "a pass plugin": (f"-fpass-plugin={target}",),
        "a plugin of the front end": ("-add-plugin", "x", "-plugin", target),
        "statistics": (f"-stats-file={target}",),
        "an optimisation record": ("-opt-record-file", target),
        "stack usage": ("-stack-usage-file", target),
        "diagnostics": ("-serialize-diagnostic-file", target),
        "a log of diagnostics": ("-diagnostic-log-file", target),
        "a time trace": (f"-ftime-trace={target}",),
        "split debug information": ("-split-dwarf-file", target, "-split-dwarf-output", target),
        "LLVM's information": ("-mllvm", "-stats", "-mllvm", f"-info-output-file={target}"),
        "coverage notes": ("-femit-coverage-notes", f"-coverage-notes-file={target}"),
        "a program to run": ("-mllvm", f"-exec-on-ir-change={target}"),
        "a graph": ("-mllvm", f"-dot-cfg-dir={target}", "-mllvm", "-print-changed=dot-cfg"),
        "a thin link": (f"-fthin-link-bitcode={target}",),
        "temporary files": (f"-save-temps={target}",),
        "another output": ("-o", target),
        "a file of arguments": (f"@{target}",),
        "a file of arguments as a value": ("-target-cpu", f"@{target}"),
        "a file of arguments for LLVM": ("-mllvm", f"@{target}"),
        "another input": (target,),
        "another action": ("-emit-pch", "-fixit"),
        "a profile of the machine": (f"-fprofile-instrument-use-path={target}",),
        "a training log": ("-mllvm", f"-training-log={target}"),
        "a plugin by the driver's name": (f"-fplugin={target}",),
        "a plugin of LLVM": ("-mllvm", f"-load={target}"),
        "headers": ("-header-include-file", target),
        "modules": (f"-fmodules-cache-path={target}",),
        "a graph by its prefix": ("-mllvm", f"-cfg-dot-filename-prefix={target}", "-mllvm", "-dot-cfg"),
        "a channel of its own": ("-mllvm", f"-inliner-interactive-channel-base={target}"),
        "a model": ("-mllvm", f"-ml-inliner-model-under-training={target}"),
        "reproducers": (f"-fcrash-diagnostics-dir={target}",),
        "bitcode to link": ("-mlink-bitcode-file", target),
        "replaced files": ("-remap-file", f"{target};{target}"),
    }


def make_untrusted_corpus(folder: Path, bitcode: Path, more: tuple[str, ...], name: str = "m") -> Path:
    """Make a corpus of one module with further arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.bc").write_bytes(bitcode.read_bytes())
    (folder / f"{name}.cmd").write_bytes(b"".join(word.encode() + b"\0" for word in (*BENIGN, *more)))
    write_description(folder, [name])
    return folder
