"""Register, delete and recreate entities, and forecast what that does to grants.

Includes whether a namespace can be deleted. The table of entities itself is in `entities`.
"""
