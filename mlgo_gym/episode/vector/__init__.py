"""Vector environments: sub-environments, the event loop that serves their compilers, and batched infos."""
