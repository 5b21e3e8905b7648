"""Policies that look ahead: searches for the decisions of one module that cost least, on top of forked compiles."""

from mlgo_gym.search.algorithms import ALGORITHMS, search_module
from mlgo_gym.search.beam import beam
from mlgo_gym.search.budget import Budget
from mlgo_gym.search.corpus_search import CorpusSearch
from mlgo_gym.search.greedy import greedy
from mlgo_gym.search.hill_climb import hill_climb
from mlgo_gym.search.mcts import mcts
from mlgo_gym.search.random_search import random_search
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

__all__ = [
    "ALGORITHMS",
    "Branch",
    "Budget",
    "CorpusSearch",
    "Leaf",
    "SearchResult",
    "SearchSpace",
    "beam",
    "greedy",
    "hill_climb",
    "mcts",
    "random_search",
    "search_module",
]
