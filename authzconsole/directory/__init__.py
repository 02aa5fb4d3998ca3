"""LDAP: sign-in with a password of the directory, and the synchronization of memberships and console roles.

Only modules that are used if LDAP_URI is set import python-ldap and django-auth-ldap, the packages of the
extra `ldap`.
"""
