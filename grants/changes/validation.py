"""Validate the changes of a change set, so that all faults are reported together."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.services import instance_fault
from grants.change_set import (
    Activate,
    Change,
    Deactivate,
    Grant,
    Join,
    Key,
    Leave,
    Revoke,
    as_text,
    principals_of,
)
from grants.errors import ChangeRefused, GrantError, RefusedChange
from grants.models import User
from grants.principal_names import format_principal, name_fault, principals_by_name
from grants.validity import ValidityError


def validated_principals(
    changes: Iterable[Change], *, allows_past_end: bool = False
) -> dict[str, User | Group]:
    """Return the principals of grants, revocations, memberships and activations, by written name.

    allows_past_end: accept periods that have ended, to restore a state. Raise ChangeRefused with all invalid
    changes. Runs two queries for every `ROWS_PER_STATEMENT` principals.
    """
    now = None if allows_past_end else timezone.now()
    positions: dict[Key | str, tuple[str, int]] = {}
    valid: list[tuple[tuple[str, int], Change]] = []
    errors, counts = [], Counter[str]()
    for change in changes:
        position = change.verb, counts[change.verb]
        counts[change.verb] += 1
        try:
            _check(change, now)
        except ValidityError as error:
            errors.append(RefusedChange(*position, f"`{error.field}`: {error}"))
            continue
        except GrantError as error:
            errors.append(RefusedChange(*position, str(error)))
            continue
        first = positions.setdefault(_subject(change), position)
        if first == position:
            valid.append((position, change))
        else:
            message = f"{_text(change)} repeats {first[0]}[{first[1]}]: keep one of the two"
            errors.append(RefusedChange(*position, message))
    principals = principals_by_name({name for _, change in valid for name in principals_of(change)})
    for position, change in valid:
        if unknown := next((name for name in principals_of(change) if name not in principals), ""):
            message = f"{unknown} does not exist: add it first, or correct the name"
            errors.append(RefusedChange(*position, message, unknown.partition(":")[0]))
    if errors:
        # all grants before all revocations, each in the order of the request
        errors.sort(key=lambda error: (error.verb, error.index))
        raise ChangeRefused(errors, is_single=counts.total() == 1)
    return principals


def _check(change: Change, now: datetime | None) -> None:
    """Raise GrantError if the change is invalid by itself."""
    match change:
        case Grant() | Revoke():
            format_principal(change.principal)
            if fault := instance_fault(change.address):
                raise GrantError(fault)
        case Join() | Leave():
            if fault := name_fault(change.user) or name_fault(change.group):
                raise GrantError(fault)
        case Activate(user) | Deactivate(user):
            if fault := name_fault(user):
                raise GrantError(fault)
    if isinstance(change, Grant | Join) and now is not None:
        change.validity.check_not_over(now)


def _subject(change: Change) -> Key | str:
    """Return what two changes of one set may not share."""
    match change:
        case Grant() | Revoke() | Join() | Leave():
            return change.key
        case Activate(user) | Deactivate(user):
            return user
    return as_text(change)


def _text(change: Change) -> str:
    return f"user:{change.user}" if isinstance(change, Activate | Deactivate) else str(change)
