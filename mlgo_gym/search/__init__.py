"""Search: the decisions of one module with the least cost, by look-ahead in forked compiles and by bundles of flips."""

from mlgo_gym.search.corpus_search import ALGORITHMS, CorpusSearch, SearchResult, search_module
from mlgo_gym.search.scoring import Score, score
from mlgo_gym.search.search_space import Budget, SearchSpace

__all__ = ["ALGORITHMS", "Budget", "CorpusSearch", "Score", "SearchResult", "SearchSpace", "score", "search_module"]
