"""Choosing thresholds: grids, the Pareto front, the held-out check."""
