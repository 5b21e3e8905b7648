"""The interactive protocol of one clang: channels, decisions, inlining contexts, and callee prediction."""
