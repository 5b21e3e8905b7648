"""A leaderboard in a folder: submissions by the protocol of the benchmark, each made again before it counts."""
