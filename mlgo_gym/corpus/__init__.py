"""Corpora: bitcode modules with the flags they were compiled with, and where to get them."""

from mlgo_gym.corpus.combine import combine_corpora
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.extract import extract_corpus
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.make import make_corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.object_list import read_object_list
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.parquet import import_parquet

__all__ = [
    "Corpus",
    "Module",
    "combine_corpora",
    "edit_flags",
    "extract_corpus",
    "import_parquet",
    "make_corpus",
    "open_corpus",
    "read_object_list",
]
