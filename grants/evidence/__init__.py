"""Who had access to an entity in a period, since when and by which grants, and signed bundles of these rows.

Belongs here: periods of revisions and the access in them. Does not belong here: the tables of the past (`grants.history`).
"""
