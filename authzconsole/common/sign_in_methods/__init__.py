"""Services that remove second factors and linked identities of accounts, for pages and SCIM.

Services that add them belong to `authzconsole.web.accounts`.
"""
