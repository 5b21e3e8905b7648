"""Reports over runs: comparisons, pages with figures, and leaderboards."""
