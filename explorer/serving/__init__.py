"""Pools, objectives and latency: what a scenario delivers (THInfer Eqs 20-22)."""
