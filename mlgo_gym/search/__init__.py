"""Search: the decisions of one module with the least cost, by bundles of flips."""

from mlgo_gym.search.corpus_search import CorpusSearch, SearchResult, search_module
from mlgo_gym.search.search_space import Budget, SearchSpace

__all__ = ["Budget", "CorpusSearch", "SearchResult", "SearchSpace", "search_module"]
