"""LLVM's formats and facts: compilers, advisors, tensor specs, training logs, bitcode, object files, costs."""
