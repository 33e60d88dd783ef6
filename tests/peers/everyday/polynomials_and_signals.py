"""Empty yet."""
