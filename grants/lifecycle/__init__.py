"""Register, delete and recreate entities, and forecast the effects on grants.

This package also computes whether a namespace can be deleted. The table of entities is in `entities`.
"""
