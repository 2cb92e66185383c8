"""Compactors: one file each, each ends in one ``COMPACTOR`` constant."""
