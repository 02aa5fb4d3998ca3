"""Measurements, each printed as a ratio against a reference that runs on the same machine.

Tests of correctness are in `tests/`.
"""
