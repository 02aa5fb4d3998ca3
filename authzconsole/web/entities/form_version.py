"""Detect concurrent edits.

A form sends the version of the data that it displayed; a write with another version is refused.
"""

import hashlib


def form_version(*data: object) -> str:
    """Return a short hash of the data that the form displays. Equal data must have an equal `repr`."""
    return hashlib.sha256(repr(data).encode()).hexdigest()[:16]
