"""Into an ordinary build: the policies of `mlgo-clang` as native code, plugins for clang, exports, recipes."""
