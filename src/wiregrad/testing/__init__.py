"""Checks for tests of your own ops and functions."""
