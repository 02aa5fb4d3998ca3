"""The REST resources about users, groups and memberships.

Grants are in `authzconsole.rest.grants`, changes of one account's sign-in in `authzconsole.web.accounts`.
"""
