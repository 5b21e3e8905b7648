"""Each library by its own entry point, as its tutorial begins, on every environment."""
