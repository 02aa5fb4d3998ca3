"""Parse JSON strictly, as RFC 8259 and I-JSON define it.

The parser accepts only UTF-8, and rejects repeated members, NaN and Infinity, deep nesting and very long
numbers. Parsers disagree about which of two repeated members counts, so two programs could read the same
document differently. It can also reject lone surrogates (RFC 7493, section 2.1), which UTF-8 cannot encode.
"""

import json
import re
from collections import Counter

from entities.vocabulary import clip

MAX_NESTING = 64
MAX_DIGITS = 1_000

# A bracket, or a string up to its closing quote (up to the end of the text if there is none). The possessive
# quantifier makes sure that each byte is read once.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
# UTF-8 contains no surrogates, so only an escape can produce one; the strings of other texts need no search.
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class MalformedJson(ValueError):
    """The text is not acceptable JSON. The message says what is wrong, and where."""


def json_from_bytes(
    raw: bytes, *, text_name: str, is_single_line: bool = False, allows_surrogates: bool = True
) -> object:
    """Return the parsed value. Raise MalformedJson if the text is not acceptable JSON.

    text_name: the name of the text in error messages. is_single_line: error messages give positions without a
    line number.
    allows_surrogates: leave lone surrogates in strings to the caller, which can name the member.
    """
    if _is_too_deep(raw):
        raise MalformedJson(f"{text_name} is nested too deeply: {MAX_NESTING} levels are allowed")
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedJson(f"{text_name} is not UTF-8: byte {error.start + 1} cannot be read") from None
    except json.JSONDecodeError as error:
        position = (
            f"character {error.colno}" if is_single_line else f"line {error.lineno}, column {error.colno}"
        )
        raise MalformedJson(f"{text_name} is not JSON: {error.msg} at {position}") from None
    except ValueError as error:
        raise MalformedJson(f"{text_name} is not acceptable JSON: {error}") from None
    if not allows_surrogates and _SURROGATE_ESCAPE.search(raw) and _has_surrogate(value):
        raise MalformedJson(
            f"{text_name} is not acceptable JSON: a string or a member name contains a lone surrogate"
        )
    return value


def _has_surrogate(value: object) -> bool:
    """Return whether a string or member name contains a lone surrogate.

    The decoder has already joined the pairs.
    """
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(map(_has_surrogate, value)) or any(map(_has_surrogate, value.values()))
    return isinstance(value, list) and any(map(_has_surrogate, value))


def _is_too_deep(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= MAX_NESTING:
        return False
    depth = 0
    for token in _TOKEN.finditer(raw):
        first_byte = token[0][:1]
        if first_byte in b"[{":
            depth += 1
            if depth > MAX_NESTING:
                return True
        elif first_byte in b"]}":
            depth -= 1
    return False


def _object_without_repeated_members(pairs: list[tuple[str, object]]) -> dict:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((repeated_name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"`{clip(repeated_name)}` appears more than once in one object")
    return members


def _reject_constant(name: str):
    raise ValueError(f"{name} is not a number in JSON")


def _limited_int(text: str) -> int:
    digits = len(text.removeprefix("-"))
    if digits > MAX_DIGITS:
        raise ValueError(f"it contains a number with {digits:,} digits; {MAX_DIGITS:,} are allowed")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_without_repeated_members,
    parse_constant=_reject_constant,
    parse_int=_limited_int,
)
