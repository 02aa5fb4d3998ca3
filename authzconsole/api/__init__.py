"""The AuthZEN Authorization API 1.0 under `/access/v1`.

Everything else that services call is in `authzconsole.rest`.
"""
