"""The demo tenant, and the temporary console that is used for screenshots of every page.

Production uses only the tenant document, which `make run` imports into an empty database.
"""
