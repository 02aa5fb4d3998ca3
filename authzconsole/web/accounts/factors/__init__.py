"""Second factors of accounts: authenticator apps (TOTP), passkeys (WebAuthn) and recovery codes.

django-allauth stores the factors. This package has the pages, the changes with their journal lines, and the
verification of codes.
"""
