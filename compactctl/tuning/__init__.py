"""Choosing settings: grids of points, whole replays of each, the Pareto front, and whether a choice holds elsewhere."""
