"""Reports: one file an output, each ends in one ``REPORT`` constant and returns bytes."""
