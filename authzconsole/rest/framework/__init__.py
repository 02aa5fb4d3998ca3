"""Code that every REST endpoint uses: callers, fields, cursors, ETags and problem details.

Nothing here depends on a single resource.
"""
