"""Sessions of accounts: their storage, their limits, and how they end.

The pages that list and end sessions are in `authzconsole.web.accounts`.
"""
