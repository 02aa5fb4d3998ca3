"""Pages about users and groups: lists, one principal, memberships, comparison, off-boarding and
impersonation.

Sign-in and console roles are in `authzconsole.web.accounts`.
"""
