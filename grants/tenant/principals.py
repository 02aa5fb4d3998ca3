"""The users, groups and members of a tenant document.

An imported user is a principal and an ordinary account without a password. The role and the password of an account that is
there already never change.
"""

from collections.abc import Callable, Iterable
from itertools import chain

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from entities.vocabulary import clip
from grants.bulk_rows import chunks, database_now, insert_rows, reserve_ids, update_rows
from grants.journal import Change
from grants.models import Role, User
from grants.principal_rows import PRINCIPAL_TABLES
from grants.tenant.faults import Fault
from grants.tenant.lines import UserLine
from grants.tenant.reading import Document
from grants.tenant.report import (
    GROUPS_ADDED,
    MEMBERS_ADDED,
    MEMBERS_REMOVED,
    USERS_ADDED,
    USERS_CHANGED,
    ImportReport,
)

USER_COLUMNS = ("id", "username", "password", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser",
                "date_joined", "role", "is_principal")


def unknown_principals(document: Document) -> Iterable[Fault]:
    """A fault for every line that names a user or a group which is neither in the document nor in the console."""
    unknown = {("user", name) for name in _unknown("user", _named_users(document) - document.users.keys())}
    unknown |= {("group", name) for name in _unknown("group", _granted(document, "group") - document.groups.keys())}
    if not unknown:
        return
    for group in document.groups.values():
        if missing := [name for name in group.members or () if ("user", name) in unknown]:
            yield Fault(group.line, "members", f"{_quoted(missing)} stands neither in this document nor in the console")
    for grant in chain.from_iterable(document.grants.values()):
        if grant.principal in unknown:
            yield Fault(grant.line, "principal", f"`{clip(':'.join(grant.principal))}` stands neither in this document nor in "
                                                 f"the console")


def lost_administrators(document: Document) -> Iterable[Fault]:
    """A fault for every line that would leave the console without an active administrator."""
    administrators = set(User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).values_list("username", flat=True))
    lines = [document.users[name] for name in administrators if name in document.users]
    switched_off = [line for line in lines if line.active is False]
    if administrators and len(switched_off) == len(administrators):
        for line in switched_off:
            yield Fault(line.line, "active", f"`{clip(line.name)}` is an administrator of this console, and no other would stay "
                                             f"active: make another account an administrator first")


def _named_users(document: Document) -> set[str]:
    members = chain.from_iterable(group.members or () for group in document.groups.values())
    return {*members, *_granted(document, "user")}


def _granted(document: Document, kind: str) -> set[str]:
    return {name for lines in document.grants.values() for _, (of, name), *_ in lines if of == kind}


def _unknown(kind: str, names: set[str]) -> set[str]:
    model, field = PRINCIPAL_TABLES[kind]
    for chunk in chunks(sorted(names)):
        names = names - set(model.objects.filter(**{f"{field}__in": chunk}).values_list(field, flat=True))
    return names


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{clip(name)}`" for name in names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def write_users(document: Document, report: ImportReport, record: Callable) -> dict[str, int]:
    """Add and change users as the document says. Returns the primary key of every user that it names."""
    ids: dict[str, int] = {}
    for chunk in chunks(dict.fromkeys([*document.users, *sorted(_named_users(document))])):
        rows = User.objects.filter(username__in=chunk).values_list("username", "pk", "is_active", "email", "is_principal")
        stored = {name: row for name, *row in rows}
        ids.update((name, row[0]) for name, row in stored.items())
        record(_update_users(stored, document, report))
    for new in chunks([line for line in document.users.values() if line.name not in ids]):
        record(_insert_users(new, ids, report))
    return ids


def _insert_users(new: list[UserLine], ids: dict[str, int], report: ImportReport) -> list[Change]:
    at = database_now()
    ids.update(zip((line.name for line in new), reserve_ids(User, len(new)), strict=True))
    insert_rows(User, USER_COLUMNS, [
        (ids[line.name], line.name, make_password(None), "", "", line.email or "", line.active is not False, False, False,
         at, str(Role.ORDINARY), True)
        for line in new
    ])
    for line in new:
        report.changes[USERS_ADDED, "inactive" if line.active is False else "active"] += 1
    return [Change("user-add", principal=f"user:{line.name}", detail="inactive" if line.active is False else "")
            for line in new]


def _update_users(stored: dict[str, list], document: Document, report: ImportReport) -> list[Change]:
    changes, rows = [], []
    for name, (pk, active, email, is_principal) in stored.items():
        line = document.users.get(name) or UserLine(0, name, None, None)
        wanted_active = active if line.active is None else line.active
        wanted_email = email if line.email is None else line.email
        details = [f"active: {str(wanted_active).lower()}"] if wanted_active != active else []
        details += [f"email: {wanted_email}"] if wanted_email != email else []
        found = [Change("user-change", principal=f"user:{name}", detail=", ".join(details))] if details else []
        found += [Change("principal-add", principal=f"user:{name}")] if not is_principal else []
        if found:
            rows.append((wanted_active, wanted_email, True, pk))
            changes += found
        elif line.line:
            report.unchanged["users"] += 1
    report.changes[USERS_CHANGED, ""] += len(rows)
    update_rows(User, ("is_active", "email", "is_principal"), rows)
    return changes


def write_groups(document: Document, report: ImportReport, record: Callable) -> dict[str, int]:
    """Add the groups of the document. Returns the primary key of every group that it names."""
    ids: dict[str, int] = {}
    for chunk in chunks(dict.fromkeys([*document.groups, *sorted(_granted(document, "group"))])):
        stored = dict(Group.objects.filter(name__in=chunk).values_list("name", "pk"))
        new = [name for name in chunk if name not in stored]
        ids.update(stored | dict(zip(new, reserve_ids(Group, len(new)), strict=True)))
        insert_rows(Group, ("id", "name"), [(ids[name], name) for name in new])
        record([Change("group-add", principal=f"group:{name}") for name in new])
        report.changes[GROUPS_ADDED, ""] += len(new)
        report.unchanged["groups"] += len(stored.keys() & document.groups.keys())
    return ids


def write_members(document: Document, users: dict[str, int], groups: dict[str, int], report: ImportReport,
                  record: Callable) -> None:
    """Give every group whose members are listed exactly these members."""
    membership = User.groups.through
    for chunk in chunks(group for group in document.groups.values() if group.members is not None):
        stored = membership.objects.filter(group_id__in=[groups[group.name] for group in chunk])
        held = {(group, user): pk for pk, group, user in stored.values_list("pk", "group__name", "user__username")}
        wanted = dict.fromkeys((group.name, member) for group in chunk for member in group.members)
        added = [pair for pair in wanted if pair not in held]
        removed = [pair for pair in held if pair not in wanted]
        insert_rows(membership, ("user_id", "group_id"), [(users[user], groups[group]) for group, user in added])
        for pairs in chunks(removed):
            membership.objects.filter(pk__in=[held[pair] for pair in pairs]).delete()
        record([*_member_changes("member-add", added), *_member_changes("member-remove", removed)])
        report.changes[MEMBERS_ADDED, ""] += len(added)
        report.changes[MEMBERS_REMOVED, ""] += len(removed)
        report.unchanged["members"] += len(wanted) - len(added)


def _member_changes(action: str, pairs: list[tuple[str, str]]) -> Iterable[Change]:
    return (Change(action, principal=f"user:{user}", detail=f"group:{group}") for group, user in pairs)
