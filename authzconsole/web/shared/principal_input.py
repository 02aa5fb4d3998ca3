"""Whom somebody meant: by a name with spaces around it, and by a name that nobody has."""

import heapq
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from authzconsole.web.shared.paging import url_with
from grants.models import User
from grants.principal_names import PRINCIPAL_TYPES, parse_principal, storage_fault

MOST_NEAREST = 3
MOST_LOOKED_AT = 500
MOST_PARTS = 4
LEAST_LIKENESS = 0.6

_BETWEEN_PARTS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class UnknownPrincipal:
    """A subject that there is not. nearest: principals with names like it, each with the URL of the same question."""

    type: str
    name: str
    nearest: list[tuple[str, str]]


def with_default_type(text: str) -> str:
    """A subject without a type is a user."""
    return text if not text or ":" in text else f"user:{text}"


def principal_from_input(text: str) -> str:
    """What a field for users and groups holds, without the spaces around it that are of no name."""
    type_, colon, name = text.lstrip().partition(":")
    if colon and type_ in PRINCIPAL_TYPES:
        return f"{type_}:{_exactly_or_without(name, name.strip(), type_)}"
    return _exactly_or_without(text, text.strip(), "user")


def name_from_input(text: str, type_: str) -> str:
    """What a field for users alone, or groups alone, holds: it takes `user:NAME` too, as everything else writes it."""
    return _exactly_or_without(text, text.strip().removeprefix(f"{type_}:"), type_)


def _exactly_or_without(text: str, usual: str, type_: str) -> str:
    """A name may hold what is otherwise a slip, and the one who has the name without it is somebody else."""
    if text == usual or storage_fault(text):
        return usual
    return text if _is_called(type_, text) else usual


def _is_called(type_: str, name: str) -> bool:
    model, column = (User, "username") if type_ == "user" else (Group, "name")
    return model.objects.filter(**{column: name}).exists()


def unknown_principal_in(request: HttpRequest, subject: str) -> UnknownPrincipal | None:
    """None where there is such a user or group, or where the account is not told names. At most three queries.

    Raises PrincipalError where the text names no principal at all.
    """
    if not request.user.can_see_all:
        return None
    type_, name = parse_principal(with_default_type(subject))
    if _is_called(type_, name):
        return None
    return UnknownPrincipal(type_, name, [(found, url_with(request, subject=found)) for found in _nearest(name)])


def _nearest(name: str) -> list[str]:
    users = _alike(User.objects.filter(is_principal=True), "username", name)
    groups = _alike(Group.objects.all(), "name", name)
    likely = [(_likeness(name, found), f"{type_}:{found}") for type_, names in (("user", users), ("group", groups))
              for found in names]
    nearest = heapq.nsmallest(MOST_NEAREST, likely, key=lambda one: (-one[0], one[1]))
    return [written for likeness, written in nearest if likeness >= LEAST_LIKENESS]


def _alike(rows: QuerySet, column: str, name: str) -> QuerySet:
    """Some names that begin as this one does, or hold a part of it: all names are too many to be compared."""
    alike = Q(**{f"{column}__istartswith": name[: max(2, len(name) // 2)]})
    for part in _BETWEEN_PARTS.split(name)[:MOST_PARTS]:
        if len(part) > 2:
            alike |= Q(**{f"{column}__icontains": part})
    return rows.filter(alike).order_by(column).values_list(column, flat=True)[:MOST_LOOKED_AT]


def _likeness(written: str, found: str) -> float:
    """From 0 to 1; a name that holds the whole of what was written is as near as one can be."""
    written, found = written.lower(), found.lower()
    return 1.0 if written in found else SequenceMatcher(None, written, found).ratio()
