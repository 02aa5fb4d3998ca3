"""Validate names and texts, and read and write principals as `user:NAME` or `group:NAME`."""

import re
from collections.abc import Iterable

from django.contrib.auth.models import Group

from entities.text import storage_fault
from entities.vocabulary import clip
from grants.bulk_rows import chunks
from grants.errors import PrincipalError
from grants.models import PRINCIPAL_TYPES, GrantQuerySet, User
from grants.policies.principals import ROLE_PREFIX, principal_text, type_and_name

MAX_NAME_CHARACTERS = 150
MAX_REASON_CHARACTERS = 2_000
MAX_DESCRIPTION_CHARACTERS = 10_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def name_fault(name: str) -> str:
    """Return why a user or group cannot have this name; empty if it can."""
    if not name.removeprefix(ROLE_PREFIX).strip():
        return "the name is empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"the name has {len(name):,} characters; {MAX_NAME_CHARACTERS} are allowed"
    return control_character_fault("the name", name)


def control_character_fault(text_name: str, text: str) -> str:
    """Return why the text is invalid: it contains a control character, or cannot be stored. Empty if it is
    valid.

    text_name: the name of the text in the message.
    """
    if _CONTROL.search(text):
        return f"{text_name} `{clip(text)}` holds a control character"
    return storage_fault(text)


def format_principal(principal: str | User | Group) -> str:
    """Return the written form of a principal. Raise PrincipalError for a text that is not a principal."""
    for principal_type in PRINCIPAL_TYPES.values():
        if isinstance(principal, principal_type.model):
            return principal_text(principal_type.name, getattr(principal, principal_type.name_column))
    parse_principal(principal)
    return principal


def parse_principal(principal: str) -> tuple[str, str]:
    """Return (name of the type, name). Raise PrincipalError if the text is not a principal."""
    principal_type, name = type_and_name(principal) if isinstance(principal, str) else ("", "")
    if principal_type not in PRINCIPAL_TYPES:
        raise PrincipalError(
            f"`{clip(principal)}` is not a principal: write user:NAME, group:NAME or role:NAME"
        )
    if principal != principal_text(principal_type, name):
        raise PrincipalError(f"`{clip(principal)}` is a role: write {clip(name)}")
    if fault := name_fault(name):
        raise PrincipalError(fault)
    return principal_type, name


def grants_of(principal: str) -> GrantQuerySet:
    """Return the grants to a principal in written form, as they were made. Raise PrincipalError for another text."""
    principal_type, name = parse_principal(principal)
    return PRINCIPAL_TYPES[principal_type].grants_to(name)


def principals_by_name(written_names: Iterable[str]) -> dict[str, User | Group]:
    """Return the principals that exist, by written name. Runs one query for each type of principal and
    `ROWS_PER_STATEMENT` names.

    Raise PrincipalError if one is not a principal.
    """
    names: dict[str, list[str]] = {}
    for principal_type, name in map(parse_principal, written_names):
        names.setdefault(principal_type, []).append(name)
    principals = {}
    for type_name, of_type in names.items():
        column = PRINCIPAL_TYPES[type_name].name_column
        for chunk in chunks(of_type):
            rows = PRINCIPAL_TYPES[type_name].principals.filter(**{f"{column}__in": chunk})
            principals |= {principal_text(type_name, getattr(row, column)): row for row in rows}
    return principals
