"""Tools for tests of environments; `mlgo_gym.testing` has their names."""
