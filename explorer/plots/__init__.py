"""Plotly figures made from result objects: one function gathers the data, one draws it."""
