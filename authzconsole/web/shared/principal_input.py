"""Resolve principals from free-form input, and suggest similar names if there is no such principal."""

import heapq
import re
from difflib import SequenceMatcher

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest

from authzconsole.web.shared.paging import url_with
from entities.frozen import frozen
from entities.text import storage_fault
from grants.errors import PrincipalError
from grants.models import GROUP, USER, User
from grants.policies.principals import principal_text, type_and_name
from grants.principal_names import PRINCIPAL_TYPES, parse_principal, principals_by_name

MAX_SUGGESTIONS = 3
MAX_CANDIDATES = 500
MAX_PARTS = 4
MIN_SIMILARITY = 0.6

_PART_SEPARATOR = re.compile(r"[\W_]+")


@frozen
class UnknownPrincipal:
    """A principal that does not exist. suggestions: similar principals, with the URL of the same question
    about each.
    """

    type: str
    name: str
    suggestions: list[tuple[str, str]]


def with_default_type(text: str) -> str:
    """Return the text with the type `user:` if it has none."""
    return text if not text or ":" in text else f"user:{text}"


def principal_from_input(text: str) -> str:
    """Return the principal in a field for users and groups.

    Surrounding spaces are removed if they are not part of its name.
    """
    type_, name = type_and_name(text.lstrip())
    if type_ in PRINCIPAL_TYPES:
        return principal_text(type_, _exact_or_stripped(name, name.strip(), type_))
    return _exact_or_stripped(text, text.strip(), "user")


def name_from_input(text: str, type_: str) -> str:
    """Return the name in a field for one type of principal.

    The field also accepts `user:NAME` or `group:NAME`.
    """
    return _exact_or_stripped(text, text.strip().removeprefix(f"{type_}:"), type_)


def _exact_or_stripped(text: str, stripped: str, type_: str) -> str:
    """Return the exact text if it is the name of a principal, else the stripped text.

    In most input, surrounding spaces and the prefix are not part of the name, but there may be a principal
    with such a name.
    """
    if text == stripped or storage_fault(text):
        return stripped
    return text if PRINCIPAL_TYPES[type_].find(text) else stripped


def unknown_principal_in(request: HttpRequest, subject: str) -> UnknownPrincipal | None:
    """Return the principal in the text with suggestions, if it does not exist. Runs at most three queries.

    Return None if it exists, or if the account cannot see names. Raise PrincipalError if the text is not a
    valid principal.
    """
    if not request.user.can_see_all:
        return None
    type_, name = parse_principal(with_default_type(subject))
    if PRINCIPAL_TYPES[type_].find(name):
        return None
    suggestions = [
        (principal, url_with(request, subject=principal)) for principal in similar_principals(name)
    ]
    return UnknownPrincipal(type_, name, suggestions)


def similar_principals(name: str) -> list[str]:
    """Return at most MAX_SUGGESTIONS principals with a similar name, the most similar first. Runs two queries."""
    rows = {USER: User.objects.principals(), GROUP: GROUP.principals}
    scored = [
        (_similarity(name, candidate), principal_text(principal_type.name, candidate))
        for principal_type, principals in rows.items()
        for candidate in _candidates(principals, principal_type.name_column, name)
    ]
    best = heapq.nsmallest(MAX_SUGGESTIONS, scored, key=lambda item: (-item[0], item[1]))
    return [principal for similarity, principal in best if similarity >= MIN_SIMILARITY]


def _candidates(rows: QuerySet, column: str, name: str) -> QuerySet:
    """Return the names that have the same beginning as `name`, or contain one of its parts. Comparing all
    names takes too long."""
    condition = Q(**{f"{column}__istartswith": name[: max(2, len(name) // 2)]})
    for part in _PART_SEPARATOR.split(name)[:MAX_PARTS]:
        if len(part) > 2:
            condition |= Q(**{f"{column}__icontains": part})
    return rows.filter(condition).order_by(column).values_list(column, flat=True)[:MAX_CANDIDATES]


def _similarity(typed: str, candidate: str) -> float:
    """Return a value from 0 to 1. A name that contains the typed text is a full match."""
    typed, candidate = typed.lower(), candidate.lower()
    return 1.0 if typed in candidate else SequenceMatcher(None, typed, candidate).ratio()


def principal_or_404(text: str) -> User | Group:
    """Return the principal that a string such as `user:alice` names. Raise Http404 if there is none."""
    try:
        parse_principal(text)
    except PrincipalError as error:
        raise Http404(str(error)) from None
    principal = principals_by_name([text]).get(text)
    if principal is None:
        raise Http404("there is no such user or group")
    return principal
