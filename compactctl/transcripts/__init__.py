"""Loaders of recorded sessions: one file a format, each ends in one ``FORMAT`` constant."""
