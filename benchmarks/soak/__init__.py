"""A soak test: a temporary console under load while its parts are killed, hung, disconnected and out of
space.

`make soak` runs it. docs/reference/soak.md describes the faults and the checks.
"""
