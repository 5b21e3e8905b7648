"""`mlgo-clang` and `mlgo-clang++`: a stock clang whose optimisation decisions a policy makes.

A build starts these programs hundreds of times, so the package uses little of the standard library and never imports
`mlgo_gym`. A program of `mlgo_gym` makes the native code of policies, which `mlgo_clang.native` starts. `mlgo_gym`
imports the small modules of this package.
"""
