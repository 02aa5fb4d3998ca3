"""Grant and revoke privileges: authority, the change set, its rows and its outcome, and the lines about
periods that end.

Changes to principals are in `grants.principals`, changes to entities in `grants.lifecycle`.
"""
