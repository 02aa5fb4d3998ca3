"""SCIM 2.0 (RFC 7643, RFC 7644): an identity provider creates, changes and deactivates users, groups and
memberships.

The changes are made by the services of `grants.principals`. Console roles, tokens and grants cannot be
changed over SCIM.
"""
