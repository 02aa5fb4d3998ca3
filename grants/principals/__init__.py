"""Create and change users, groups and memberships, and list and compare them.

Signing in, passwords of a session and API tokens are not here; see `authzconsole.web.accounts`.
"""
