"""Summarizers: one file each, each ends in one ``SUMMARIZER`` constant."""
