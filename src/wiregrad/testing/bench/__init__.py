"""Measuring wiregrad: workloads, races in which entrants take turns, and tables that say what was wanted."""
