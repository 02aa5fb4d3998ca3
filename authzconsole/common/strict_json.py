"""JSON as RFC 8259 and I-JSON have it: UTF-8, no member twice, no NaN, and no deeper than anybody needs.

A member that stands twice would be read one way here and another way elsewhere.
"""

import json
import re
from collections import Counter

from entities.vocabulary import clip

DEEPEST_NESTING = 64
MOST_DIGITS = 1_000

# a string to its end, or to the end of the text where it is not closed; possessive, so that each byte is looked at once
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class MalformedJson(ValueError):
    """The text is not acceptable JSON; the message says what and where."""


def json_from_bytes(raw: bytes, *, what: str) -> object:
    """The value. Raises MalformedJson, which calls the text `what`."""
    if _is_too_deep(raw):
        raise MalformedJson(f"{what} is nested too deeply: {DEEPEST_NESTING} levels are allowed")
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedJson(f"{what} is not UTF-8: byte {error.start + 1} cannot be read") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise MalformedJson(f"{what} is not acceptable JSON: {error}") from None


def _is_too_deep(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST_NESTING:
        return False
    depth = 0
    for token in _TOKEN.finditer(raw):
        opening = token[0][:1]
        if opening in b"[{":
            depth += 1
            if depth > DEEPEST_NESTING:
                return True
        elif opening in b"]}":
            depth -= 1
    return False


def _object(pairs: list[tuple[str, object]]) -> dict:
    read = dict(pairs)
    if len(read) < len(pairs):
        (twice, _), = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"`{clip(twice)}` stands more than once in one object")
    return read


def _no_number(name: str):
    raise ValueError(f"{name} is not a number in JSON")


def _whole(digits: str) -> int:
    if (count := len(digits.removeprefix("-"))) > MOST_DIGITS:
        raise ValueError(f"a number in it has {count:,} digits; {MOST_DIGITS:,} are allowed")
    return int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_int=_whole)
