"""`mlgo-clang` and `mlgo-clang++`: a stock clang whose optimisation decisions a policy makes.

A build starts these programs hundreds of times, so the package uses little of the standard library and never imports
`mlgo_gym`. Networks and searches need it: they run as programs of `mlgo_gym`, which `mlgo_clang.programs`
starts. `mlgo_gym` imports the small modules of this package.
"""
