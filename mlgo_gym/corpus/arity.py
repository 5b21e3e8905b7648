"""How many words after a flag of clang are its values.

Taken from clang 17 to 22 themselves: each name in their option tables was given as the last word, alone, and those are
listed of which clang says "argument to '-x' is missing (expected 1 value)".
"""

from __future__ import annotations


def arity(flag: str) -> int:
    """Return how many of the words that follow `flag` belong to it: 0 for a flag that is complete in itself.

    `-I` takes one, `-I/usr/include` none; `-fthinlto-index=x` none.
    """
    if flag in _ONE_VALUE or flag.startswith(_ONE_VALUE_AFTER_JOINED):
        return 1
    return _MORE_VALUES.get(flag, 0)


_ONE_VALUE_AFTER_JOINED = ("-plugin-arg-", "-Xarch_")

_MORE_VALUES = {
    "-sectalign": 3,
    "-sectcreate": 3,
    "-sectobjectsymbols": 2,
    "-sectorder": 3,
    "-segaddr": 2,
    "-segcreate": 3,
    "-segprot": 3,
}

_ONE_VALUE = frozenset(
    """
    --CLASSPATH --analyzer-output --assert --bootclasspath --classpath --config --define-macro --dyld-prefix
    --encoding --extdirs --for-linker --force-link --include-directory --include-directory-after
    --include-prefix --include-with-prefix --include-with-prefix-after --include-with-prefix-before --language
    --library-directory --mhwdiv --no-system-header-prefix --output --output-class-directory --param --prefix
    --print-file-name --print-prog-name --resource --rtlib --serialize-diagnostics --std --stdlib --sysroot
    --system-header-prefix --undefine-macro --vfsoverlay -A -B -D -F -G -I -L -MF -MJ -MQ -MT -T -U -V
    -Xanalyzer -Xarch_device -Xarch_host -Xassembler -Xclang -Xclangas -Xcuda-fatbinary -Xcuda-ptxas -Xlinker
    -Xmicrosoft-visualc-tools-root -Xmicrosoft-visualc-tools-version -Xmicrosoft-windows-sdk-root
    -Xmicrosoft-windows-sdk-version -Xmicrosoft-windows-sys-root -Xoffload-linker -Xopenmp-target -Xpreprocessor
    -Zlinker-input -add-plugin -alias_list -allowable_client -analyze-function -analyzer-checker
    -analyzer-config -analyzer-config-compatibility-mode -analyzer-constraints -analyzer-disable-checker
    -analyzer-dump-egraph -analyzer-inline-max-stack-depth -analyzer-inlining-mode -analyzer-max-loop
    -analyzer-output -analyzer-purge -arch -arch_only -arcmt-migrate-report-output -as-secure-log-file
    -ast-dump-filter -ast-merge -aux-target-cpu -aux-target-feature -aux-triple -b -bundle_loader -c-isystem
    -ccc-gcc-name -ccc-install-dir -chain-include -client_name -code-completion-at -compatibility_version
    -current_version -cxx-isystem -darwin-target-variant -darwin-target-variant-triple -default-function-attr
    -dependency-dot -dependency-file -diagnostic-log-file -dsym-dir -dumpdir -dwarf-debug-flags -dylib_file
    -dylinker_install_name -e -error-on-deserialized-decl -exception-model -exported_symbols_list
    -fbracket-depth -fconstant-string-class -fcuda-include-gpubinary -fdebug-compilation-dir
    -fdiagnostics-format -fdiagnostics-show-category -ferror-limit -fexperimental-openacc-macro-override
    -filelist -fmodule-feature -fmodule-implementation-of -fmodules-user-build-path -fnew-alignment
    -fopenmp-host-ir-file-path -force_load -framework -ftabstop -ftrapv-handler -function-alignment
    -gen-cdb-fragment-path -header-include-file -hlsl-entry -iapinotes-modules -idirafter -iframework
    -iframeworkwithsysroot -imacros -image_base -imultilib -include -include-pch -init -install_name
    -internal-externc-isystem -internal-iframework -internal-isystem -iprefix -iquote -isysroot -isystem
    -isystem-after -ivfsoverlay -iwithprefix -iwithprefixbefore -iwithsysroot -l -lazy_framework -lazy_library
    -load -main-file-name -mdebug-pass -meabi -mfloat-abi -mfpmath -mlimit-float-precision -mlink-bitcode-file
    -mlink-builtin-bitcode -mllvm -mmlir -module-dependency-dir -mregparm -mrelocation-model -msmall-data-limit
    -mt-migrate-directory -mthread-model -mtp -multiply_defined -multiply_defined_unused -o -objc-isystem
    -objcxx-isystem -object-file-name -opt-record-file -opt-record-format -opt-record-passes -pagezero_size
    -pic-level -plugin -read_only_relocs -record-command-line -reexport_framework -reexport_library -remap-file
    -resource-dir -rpath -seg1addr -seg_addr_table -seg_addr_table_filename -segs_read_only_addr
    -segs_read_write_addr -serialize-diagnostic-file -serialize-diagnostics -source-date-epoch -specs
    -split-dwarf-file -split-dwarf-output -stack-protector -stack-protector-buffer-size -stack-usage-file
    -stdlib++-isystem -sub_library -sub_umbrella -target -target-abi -target-cpu -target-feature
    -target-linker-version -triple -tune-cpu -u -umbrella -undefined -unexported_symbols_list -vfsoverlay
    -weak_framework -weak_library -weak_reference_mismatches -working-directory -x -z
    """.split()  # noqa: SIM905 - a word list
)
