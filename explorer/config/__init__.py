"""Typed, validated documents: chip, model, scenario; presets, files and links."""
