"""Corpora: bitcode modules with their flags, from datasets, builds, folders and files."""

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.importing import import_parquet
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus, read_object_list

__all__ = [
    "Corpus",
    "Module",
    "edit_flags",
    "extract_corpus",
    "import_parquet",
    "open_corpus",
    "read_object_list",
]
