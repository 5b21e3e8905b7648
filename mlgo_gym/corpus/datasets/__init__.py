"""The catalogue of datasets: sources pinned by digest, fetched and compiled."""
