"""Create, change, list and compare users, groups and memberships.

Sign-in, password changes by users and API tokens are in `authzconsole.web.accounts`.
"""
