"""The AuthZEN Authorization API 1.0 under `/access/v1`.

The other API for programs is in `authzconsole.rest`.
"""
