"""`mlgo-clang` and `mlgo-clang++`: a stock clang whose optimisation decisions a policy makes.

A build starts these programs hundreds of times, so this package stands alone on the standard library, imports little of
that, and never imports `mlgo_gym` on the way of an ordinary compile: see `docs/deploy.md` for what that costs.
"""
