"""Entities of the platform: kinds, operations, addresses, and the table of every address the console knows.

This package knows neither users nor grants; see `grants`.
"""
