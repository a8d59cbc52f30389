"""Design-space explorer for LLM inference on bandwidth-limited accelerators."""

__version__ = "0.1.0"
