"""Corpora: bitcode modules with their flags, from datasets, builds, folders and files."""

from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.opening import open_corpus

__all__ = ["Corpus", "Module", "open_corpus"]
