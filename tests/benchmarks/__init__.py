"""Measurements of speed and memory, as ratios within one run; none of them is a test."""
