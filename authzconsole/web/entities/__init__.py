"""Pages of one entity: children, holders, granting and revoking, registering and deleting.

The tree of all entities is in `authzconsole.web.explorer`.
"""
