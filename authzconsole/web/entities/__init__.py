"""Pages about one entity: contents, holders, granting and revoking, registering and deleting.

The tree of all entities is in `authzconsole.web.explorer`.
"""
