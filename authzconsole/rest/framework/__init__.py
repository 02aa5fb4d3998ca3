"""What every REST endpoint uses: callers, fields, cursors, ETags and problem details.

Nothing here knows a single resource.
"""
