"""Check whether a database can store a string.

All packages use this check, and add their own context to its messages.
"""


def storage_fault(text: str, max_characters: int | None = None) -> str:
    """Return why a database cannot store `text`, or why it is too long; an empty string if it can be stored.

    PostgreSQL rejects NUL characters, and UTF-8 cannot encode half of a surrogate pair. JSON can contain
    both.
    """
    if max_characters is not None and len(text) > max_characters:
        return f"it has {len(text):,} characters; {max_characters:,} are allowed"
    if "\0" in text:
        return r"it contains the character \u0000, which databases cannot store"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it contains half of a surrogate pair, which is not a character"
    return ""


def is_storable(text: str) -> bool:
    """Return whether a database can store `text`."""
    return not storage_fault(text)
