"""Check the name of a new user or group. Existing names that would be refused today keep working."""

import string
import unicodedata

from django.contrib.auth.models import Group
from django.core.management import get_commands
from django.db.models.functions import Upper

from entities.vocabulary import clip
from grants.models import User

# format characters (zero-width, bidirectional) and private use
_INVISIBLE_CATEGORIES = ("Cf", "Co")
_SEPARATOR_CATEGORIES = ("Zl", "Zp")
# further characters without a visible form: fillers, joiners and variation selectors
_INVISIBLE_CHARACTERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0,
                         *range(0x180B, 0x180F), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
_APPS_WITH_COMMANDS = ("authzconsole", "grants", "analytics")
_COMMANDS_WITHOUT_LINES = ("analyze", "backup", "decide", "restore")
_ASCII_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def invisible_character_fault(name: str, *, allows_separators: bool = False) -> str:
    """Return why a new name is invalid: it contains an invisible or bidirectional character. Empty if it is valid.

    allows_separators: accept U+2028 and U+2029, as tenant documents always did.
    """
    categories = _INVISIBLE_CATEGORIES if allows_separators else (*_INVISIBLE_CATEGORIES, *_SEPARATOR_CATEGORIES)
    for character in name if not name.isascii() else "":
        if unicodedata.category(character) in categories or ord(character) in _INVISIBLE_CHARACTERS:
            return f"the name holds the invisible character U+{ord(character):04X}"
    return ""


def new_name_fault(kind: str, name: str) -> str:
    """Return why no `user` or `group` with this name can be added: it looks like another one. Runs one query.

    The names of commands are reserved, because the journal names a command as an author in the same way as an account.
    """
    if fault := invisible_character_fault(name):
        return fault
    if kind == "user" and _is_command(_comparison_key(name)):
        return f"`{clip(name)}` is reserved for a command of the console"
    if other := _lookalike(kind, name):
        return f"`{clip(name)}` looks like the existing {kind}:{clip(other)}"
    return ""


def _is_command(name: str) -> bool:
    """Return whether the name is a command that can be the author of a journal line."""
    app = str(get_commands().get(name, "")).partition(".")[0]
    return app in _APPS_WITH_COMMANDS and name not in _COMMANDS_WITHOUT_LINES


def _lookalike(kind: str, name: str) -> str:
    """Return an existing name that differs only in case or in compatible characters.

    Databases ignore the case of fewer characters than Python does, so an existing name in mixed case with letters beyond ASCII
    can be missed.
    """
    rows, column = (User.objects, "username") if kind == "user" else (Group.objects, "name")
    key = _comparison_key(name)
    texts = (name, key, key.upper(), key.title())
    variants = {variant for text in texts for variant in (text.upper(), text.translate(_ASCII_UPPER))}
    names = rows.annotate(upper_name=Upper(column)).filter(upper_name__in=variants).values_list(column, flat=True)
    return next((other for other in names if other != name and _comparison_key(other) == key), "")


def _comparison_key(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
