"""Meters count tokens: one file a meter, each ends in one ``METER`` constant."""
