"""Security events: sign-ins, denials, downloads, changes of tokens, roles and settings. Record, read, ship
and delete them.

`record` writes the events; `sources` connects it to sign-ins and to the journal, and `middleware` to
responses. The table is the only source of shipping, so an unreachable syslog server loses no event.
"""
