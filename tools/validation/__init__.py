"""Simulations beside measured and published numbers: the parts of tools/phantora_validate.py."""
