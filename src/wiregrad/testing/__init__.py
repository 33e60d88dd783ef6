"""Tools for testing wiregrad and what is built on it."""
