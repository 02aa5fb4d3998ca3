"""Access requests: create them, propose the narrowest grants, decide, withdraw, expire and remind.

A request never reveals to its requester whether an address exists: it is recorded in any case, and only
approvers see the grants that it needs. An approval creates and applies a plan (`decide.py`).
`authzconsole.mail` sends the notifications.
"""
