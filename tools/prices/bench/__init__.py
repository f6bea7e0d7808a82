"""Measures a GPU for Phantora: see main.py."""
