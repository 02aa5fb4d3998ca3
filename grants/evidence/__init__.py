"""List who had access to an entity in a period, since when and through which grants, and write signed bundles
of these rows.

This package contains periods of revisions and the access in them. The tables of the past are in
`grants.history`.
"""
