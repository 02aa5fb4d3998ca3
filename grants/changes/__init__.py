"""Grant and revoke privileges: authority, the change set, its rows and its outcome.

Changes to principals are in `grants.principals`, changes to entities in `grants.lifecycle`.
"""
