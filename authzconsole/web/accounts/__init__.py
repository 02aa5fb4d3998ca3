"""Signing in, passwords, console roles, sessions and API tokens.

Pages about users as principals are in `authzconsole.web.people`.
"""
