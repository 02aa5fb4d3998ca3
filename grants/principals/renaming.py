"""Rename users and groups. Rows refer to them by key, so grants, memberships, tokens, sessions and identity
links follow.

Journal lines keep the old names. Plans keep them too: a proposed plan becomes stale, and an applied plan can
still be undone, because `names_since` follows the renames. Security events, reports and the creators of
plans, tokens and webhooks are records of the past and keep the old names. `hooks` refuses to rename
what other systems know by name.

Decisions are about names, so a rename moves all grants of a principal to another name: four eyes count it as
a change of them (`check_rename`).
"""

from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models.functions import Abs
from django.utils import timezone

from entities.vocabulary import Privilege, clip
from grants.authority.four_eyes import check_rename
from grants.authority.transactions import check_can_manage_account
from grants.change_set import Rename
from grants.errors import PrincipalError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import (
    GROUP,
    PRINCIPAL_TYPES,
    JournalHead,
    JournalLine,
    User,
    grants_through,
    permission_ids,
)
from grants.outcomes import Outcome
from grants.policies.principals import ROLE_PREFIX, principal_text
from grants.principal_names import name_fault, parse_principal
from grants.principals.hooks import name_guard_fault
from grants.principals.new_names import new_name_fault

RENAME_ACTIONS = {name: f"{name}-rename" for name in PRINCIPAL_TYPES}


def write_rename(head: JournalHead, author: Author, change: Rename) -> Outcome:
    """Give a user or group another name.

    Raise PrincipalError if the new name is invalid, in use, was in use recently, or looks like another one;
    SecondPersonRequired if one person may not move the grants of the principal to another name.
    """
    kind, name = parse_principal(change.principal)
    principal_type, new_name = PRINCIPAL_TYPES[kind], change.new_name
    if name.startswith(ROLE_PREFIX):
        new_name = f"{ROLE_PREFIX}{new_name}"
    elif kind == GROUP.name and new_name.startswith(ROLE_PREFIX):
        raise PrincipalError(f"invalid group name: `{clip(new_name)}` is the written form of a role")
    if fault := name_fault(new_name):
        raise PrincipalError(f"invalid {kind} name: {fault}")
    principal = principal_type.find(name)
    if principal is None:
        raise PrincipalError(
            f"{principal_text(kind, clip(name))} does not exist: correct the name", field=kind
        )
    if isinstance(principal, User):
        check_can_manage_account(author, principal)
    if name == new_name:
        return Outcome(False, f"{change.principal} has this name already: nothing changed", head.revision)
    if fault := name_guard_fault(
        principal, new_name, is_provisioner=author.is_provisioner
    ) or _provisioner_fault(author, principal):
        raise PrincipalError(f"{change.principal} cannot be renamed: {fault}")
    if principal_type.find(new_name):
        raise PrincipalError(f"{principal_text(kind, clip(new_name))} already exists: choose another name")
    if fault := new_name_fault(kind, new_name, replaces=name) or reused_name_fault(
        author, principal_text(kind, new_name), holder=change.principal
    ):
        raise PrincipalError(f"invalid {kind} name: {fault}")
    check_rename(author, principal, new_name)
    principal_type.principals.filter(pk=principal.pk).update(**{principal_type.name_column: new_name})
    entry = JournalEntry(
        RENAME_ACTIONS[kind], principal=change.principal, detail=principal_text(kind, new_name)
    )
    append_to_journal(head, [entry], author=author)
    return Outcome(
        True, f"{change.principal} is {principal_text(kind, new_name)} now", head.revision, (change,)
    )


def _provisioner_fault(author: Author, principal: User | Group) -> str:
    """Return why a provisioning service may not rename the principal: it holds ADMIN, at any time and in any way.

    Runs at most two queries.
    """
    admin = permission_ids()[Privilege.ADMIN]
    if author.is_provisioner and any(
        rows.filter(permission_id=admin).exists() for rows in grants_through(principal)
    ):
        return "it holds ADMIN, so only an administrator can rename it"
    return ""


def reused_name_fault(
    author: Author, principal: str, *, holder: str = "", allows_removed: bool = False
) -> str:
    """Return why an account may not give this name again: within NAME_REUSE_DAYS, it belonged to another
    principal, for which other programs, plans and people may still take it. Empty if it may.

    principal: the new name, in written form. holder: the name of the principal that gets it, which may take
    back its own name. allows_removed: whether the former holder may have been removed.
    Runs one query, and those of `current_name` if the name was in use. Commands may use every name.
    """
    if author.user_id is None or not settings.NAME_REUSE_DAYS:
        return ""
    kind, name = parse_principal(principal)
    line = (
        JournalLine.objects.filter(
            principal=principal,
            action__in=(RENAME_ACTIONS[kind], f"{kind}-remove"),
            at__gte=timezone.now() - timedelta(days=settings.NAME_REUSE_DAYS),
        )
        .order_by(Abs("revision").desc())
        .first()
    )
    if line is None:
        return ""
    free_at = line.at + timedelta(days=settings.NAME_REUSE_DAYS)
    wait = f"choose another name, or wait until {free_at:%Y-%m-%d %H:%M} UTC"
    if line.action not in RENAME_ACTIONS.values():
        return "" if allows_removed else f"`{clip(name)}` belonged to a {kind} that was removed: {wait}"
    current = current_name(principal)
    if current == holder:
        return ""
    return (
        f"`{clip(name)}` was the name of {clip(current)}, and others may still know it by this name: {wait}"
    )


def names_since(revision: int) -> Callable[[str], str]:
    """Return a function that maps the written name of a principal at `revision` to its current one.

    Runs one query.
    """
    current: dict[str, str] = {}
    origins: dict[str, str] = {}
    lines = JournalLine.objects.filter(revision__gt=revision, action__in=RENAME_ACTIONS.values()).order_by(
        "revision"
    )
    for old, new in lines.values_list("principal", "detail"):
        # a name that is free after a rename belongs to another principal later
        origin = origins.pop(old, old if old not in current else "")
        if origin:
            current[origin] = new
            origins[new] = origin
    return lambda name: current.get(name, name)


def current_name(name: str) -> str:
    """Return the current written name of a principal that had this name before a rename; the same name if
    there is none.

    Runs one query for each rename of the principal, and one more.
    """
    revision, current = 0, name
    lines = JournalLine.objects.filter(action__in=RENAME_ACTIONS.values()).order_by(Abs("revision").desc())
    while (
        line := lines.filter(principal=current, revision__gt=revision)
        .values_list("revision", "detail")
        .first()
    ):
        revision, current = line
    return current
