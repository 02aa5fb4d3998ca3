"""Check the name of a new user or group. Existing names that would be refused today keep working."""

import string
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db.models import Count
from django.db.models.functions import Upper

from entities.vocabulary import clip
from grants.author_names import ACCOUNT_SUFFIX, is_reserved_name
from grants.bulk_rows import chunks
from grants.models import GROUP, PRINCIPAL_TYPES, USER, PrincipalType
from grants.policies.principals import ROLE_PREFIX, principal_text

# each name takes up to ten parameters
NAMES_PER_QUERY = 1_000
# format characters (zero-width, bidirectional) and private use
_INVISIBLE_CATEGORIES = ("Cf", "Co")
_SEPARATOR_CATEGORIES = ("Zl", "Zp")
# further characters without a visible form: fillers, joiners and variation selectors
_INVISIBLE_CHARACTERS = {
    0x034F,
    0x115F,
    0x1160,
    0x17B4,
    0x17B5,
    0x2800,
    0x3164,
    0xFFA0,
    *range(0x180B, 0x180F),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
# letters of other scripts that look like a letter of ASCII in most fonts: Cyrillic, Greek, Armenian and Latin
_ASCII_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u04cf\u043a\u0475\u044c"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u051a\u051c\u04c0\u0474\u04ae"
    "\u03b1\u03bf\u03bd\u03c1\u03b9\u03c5\u03ba\u03b3\u03c7\u03f2\u03f3"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9\u037f"
    "\u0585\u057d\u0578\u0570\u0575\u0566\u0131\u0251\u0261",
    "aeopcyxijsdqwhlkvbABEKMHOPCTYXIJSQWlVYaovpiukyxcjABEZHIKMNOPTYXCJounhjqiag",
)
_ASCII_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def invisible_character_fault(name: str, *, allows_separators: bool = False) -> str:
    """Return why a new name is invalid: it contains an invisible or bidirectional character. Empty if it is
    valid.

    allows_separators: accept U+2028 and U+2029, as tenant documents always did.
    """
    categories = (
        _INVISIBLE_CATEGORIES if allows_separators else (*_INVISIBLE_CATEGORIES, *_SEPARATOR_CATEGORIES)
    )
    for character in name if not name.isascii() else "":
        if unicodedata.category(character) in categories or ord(character) in _INVISIBLE_CHARACTERS:
            return f"the name contains the invisible character U+{ord(character):04X}"
    return ""


def new_name_fault(principal_type: str, name: str, *, replaces: str = "") -> str:
    """Return why no `user` or `group` with this name can be added. See `new_name_faults`."""
    return new_name_faults(principal_type, [name], replaces=replaces).get(name, "")


def new_name_faults(principal_type: str, names: Collection[str], *, replaces: str = "") -> dict[str, str]:
    """Return why no users or groups with some of these names can be added: such as that one looks like an existing one.

    replaces: the current name of the principal that gets the new name. Runs a query for each NAMES_PER_QUERY names.
    """
    faults = {name: fault for name in names if (fault := _form_fault(principal_type, name))}
    alike = _lookalikes(
        PRINCIPAL_TYPES[principal_type], [name for name in names if name not in faults], replaces
    )
    return faults | {
        name: f"`{clip(name)}` looks like the existing {principal_text(principal_type, clip(other))}"
        for name, other in alike.items()
    }


def _form_fault(principal_type: str, name: str) -> str:
    """Return why no user or group can have the name. The names of commands are reserved, because the journal names a command as an
    author in the same way as an account, and so is ACCOUNT_SUFFIX, with which it tells the two apart.
    """
    own_name = name.removeprefix(ROLE_PREFIX) if principal_type == GROUP.name else name
    if own_name != own_name.strip():
        return "the name starts or ends with a space"
    if fault := invisible_character_fault(name):
        return fault
    if principal_type == USER.name and any(map(is_reserved_name, look_keys(name))):
        return f"`{clip(name)}` is reserved for a command of the console"
    if principal_type == USER.name and any(key.endswith(ACCOUNT_SUFFIX) for key in look_keys(name)):
        return f"`{clip(name)}` ends with `{ACCOUNT_SUFFIX.strip()}`, as the journal writes some accounts"
    return ""


def names_that_differ_in_case(max_names: int) -> list[str]:
    """Return existing users and groups with names that differ only in case, such as `user:Admin` and
    `user:admin`, by name.

    They are from versions that accepted such names, or from an import. Runs two queries. max_names: how many
    of each type.
    """
    names = []
    for principal_type in PRINCIPAL_TYPES.values():
        rows, column = principal_type.principals, principal_type.name_column
        upper_names = rows.order_by().annotate(upper_name=Upper(column)).values("upper_name")
        repeated = upper_names.annotate(total=Count("pk")).filter(total__gt=1).values("upper_name")
        found = (
            rows.annotate(upper_name=Upper(column))
            .filter(upper_name__in=repeated)
            .order_by("upper_name", column)
        )
        names += [
            principal_text(principal_type.name, name)
            for name in found.values_list(column, flat=True)[:max_names]
        ]
    return names


def _lookalikes(principal_type: PrincipalType, names: Iterable[str], replaces: str) -> dict[str, str]:
    """Return by name an existing one that differs only in case, in compatible characters, or in letters that look
    like ASCII.

    Databases ignore the case of fewer characters than Python does, so an existing name in mixed case with
    letters beyond ASCII can be missed. An existing name with letters that look like ASCII is only found if
    the new name has the same letters.
    """
    column = principal_type.name_column
    result = {}
    for chunk in chunks(names, NAMES_PER_QUERY):
        variants = {variant for name in chunk for variant in _upper_variants(name)}
        existing = principal_type.principals.annotate(upper_name=Upper(column)).filter(
            upper_name__in=variants
        )
        alike: dict[tuple[int, str], list[str]] = defaultdict(list)
        for other in existing.values_list(column, flat=True):
            for key in enumerate(look_keys(other)):
                alike[key].append(other)
        for name in chunk:
            others = (other for key in enumerate(look_keys(name)) for other in alike.get(key, ()))
            if other := next((other for other in others if other not in (name, replaces)), ""):
                result[name] = other
    return result


def _upper_variants(name: str) -> set[str]:
    key, ascii_key = look_keys(name)
    texts = (name, key, key.upper(), key.title(), ascii_key)
    return {variant for text in texts for variant in (text.upper(), text.translate(_ASCII_UPPER))}


def look_keys(name: str) -> tuple[str, str]:
    """Return two keys of a name. Names look alike if their first keys or their second keys are equal."""
    return _comparison_key(name), _ascii_key(name)


def _comparison_key(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _ascii_key(name: str) -> str:
    """Return the comparison key of a name with ASCII letters for those that look like them."""
    # twice, because the normalization replaces some of these letters, such as the lunate sigma, and produces
    # others
    translated = unicodedata.normalize("NFKC", name.translate(_ASCII_LOOKALIKES))
    return _comparison_key(translated.translate(_ASCII_LOOKALIKES))
