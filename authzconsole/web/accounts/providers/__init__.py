"""Sign-in through a provider: OpenID Connect, SAML, and the accounts, roles and groups that claims are mapped
to.

django-allauth runs the protocol. This package replaces the parts that check the provider's answer and choose
the account.
"""
