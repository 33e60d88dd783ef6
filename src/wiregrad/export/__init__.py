"""Exporters write circuits and runs for people: pictures, graph descriptions, plots."""
