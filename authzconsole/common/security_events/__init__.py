"""Security events: sign-ins, denials, downloads, changes of tokens, roles and settings. Record, read, ship
and delete them.

`record` writes the events of sign-ins, responses and journal lines, and `shipping` sends them. The table is the only
source of shipping, so an unreachable syslog server loses no event.
"""
