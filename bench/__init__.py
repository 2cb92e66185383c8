"""Benchmarks: every target as a ratio to a yardstick of the same run, never as a time."""
