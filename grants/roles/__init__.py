"""The console roles and the capabilities that each of them has. This package imports nothing from `grants`.

Rights on single entities are in `grants.authority`.
"""
