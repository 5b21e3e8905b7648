"""The tests: they mirror the package."""
