"""Measures of a replay (metrics M1 to M8): one file each, each ends in one ``MEASURE`` constant."""
