"""A leaderboard in a folder: submissions by the benchmark protocol, each reproduced before it counts."""
