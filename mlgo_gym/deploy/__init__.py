"""Policies in ordinary builds: native code for `mlgo-clang`, plugins for clang, exports, recipes."""
