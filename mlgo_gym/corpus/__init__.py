"""Corpora: bitcode modules with their flags, from datasets, builds, folders and files."""

from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.importing import extract_corpus, import_parquet, read_object_list
from mlgo_gym.corpus.opening import open_corpus

__all__ = ["Corpus", "Module", "edit_flags", "extract_corpus", "import_parquet", "open_corpus", "read_object_list"]
