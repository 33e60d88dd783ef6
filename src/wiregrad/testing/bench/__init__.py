"""Benchmarks: workloads, races in which entrants take turns, and tables that compare the times with targets."""
