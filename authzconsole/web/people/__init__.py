"""Pages about users and groups: lists, one principal, memberships, comparison, off-boarding, "see as".

Signing in and console roles are in `authzconsole.web.accounts`.
"""
