"""Measurements, what the models predict for them, and how far apart the two are."""
