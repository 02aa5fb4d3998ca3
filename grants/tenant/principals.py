"""Import the users, groups and memberships of a tenant document.

A new user is a principal and an ordinary account without a password. The role and the password of an existing
account never change.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from entities.vocabulary import clip
from grants.bulk_rows import chunks, database_time, insert_rows, update_rows
from grants.change_set import Exclude, Include
from grants.changes import write_memberships
from grants.journal import JournalEntry
from grants.journal_details import period_detail
from grants.models import PRINCIPAL_TYPES, JournalLine, Role, RoleGroup, User
from grants.policies.principals import group_text, principal_text
from grants.principal_names import principals_by_name
from grants.principals.hooks import end_access
from grants.principals.new_names import invisible_character_fault
from grants.role_members import write_role_memberships
from grants.tenant.lines import GroupLine, UserLine
from grants.tenant.reading import Document, Fault
from grants.tenant.report import Counted, ImportRun
from grants.validity import VALIDITY_COLUMNS, Validity

NO_LIMITS = Validity()


def unknown_principals(document: Document) -> Iterable[Fault]:
    """Yield a fault for each line with a user or group that is neither in the document nor in the console."""
    unknown = {
        ("user", name) for name in _unknown_names("user", _user_names(document) - document.users.keys())
    }
    unknown |= {
        ("group", name) for name in _unknown_names("group", _group_names(document) - document.groups.keys())
    }
    if not unknown:
        return
    for group in document.groups.values():
        missing = [name for name in group.members or () if ("user", name) in unknown]
        missing += [name for name in group.groups or () if ("group", name) in unknown]
        if missing:
            yield Fault(
                group.line, "members", f"{_name_list(missing)} is neither in this document nor in the console"
            )
    for grant in chain.from_iterable(document.grants.values()):
        if grant.principal in unknown:
            yield Fault(
                grant.line,
                "principal",
                f"`{clip(principal_text(*grant.principal))}` is neither in this document nor in the console",
            )


def invisible_names(document: Document) -> Iterable[Fault]:
    """Yield a fault for each new user or group with an invisible character in its name."""
    lines: tuple[tuple[str, Mapping[str, UserLine | GroupLine]], ...] = (
        ("user", document.users),
        ("group", document.groups),
    )
    for kind, by_name in lines:
        faults = {
            name: fault
            for name in by_name
            if (fault := invisible_character_fault(name, allows_separators=True))
        }
        for name in sorted(_unknown_names(kind, set(faults))):
            yield Fault(by_name[name].line, "name", faults[name])


def disabled_administrators(document: Document) -> Iterable[Fault]:
    """Yield a fault for each line that deactivates an administrator, if the document deactivates all active
    administrators.
    """
    administrators = set(
        User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).values_list("username", flat=True)
    )
    lines = [document.users[name] for name in administrators if name in document.users]
    deactivated = [line for line in lines if line.active is False]
    if administrators and len(deactivated) == len(administrators):
        for line in deactivated:
            yield Fault(
                line.line,
                "active",
                f"`{clip(line.name)}` is an administrator of this console, and no other would stay "
                f"active: make another account an administrator first",
            )


def _user_names(document: Document) -> set[str]:
    members = chain.from_iterable(group.members or () for group in document.groups.values())
    return {*members, *_grantee_names(document, "user")}


def _grantee_names(document: Document, kind: str) -> set[str]:
    return {
        name
        for lines in document.grants.values()
        for _, (principal_type, name), *_ in lines
        if principal_type == kind
    }


def _group_names(document: Document) -> set[str]:
    in_roles = chain.from_iterable(group.groups or () for group in document.groups.values())
    return {*in_roles, *_grantee_names(document, "group")}


def _unknown_names(kind: str, names: set[str]) -> set[str]:
    field = PRINCIPAL_TYPES[kind].name_column
    for chunk in chunks(sorted(names)):
        names = names - set(
            PRINCIPAL_TYPES[kind].principals.filter(**{f"{field}__in": chunk}).values_list(field, flat=True)
        )
    return names


def _name_list(names: list[str]) -> str:
    """Return the first three names in backquotes, and the number of the others."""
    return ", ".join(f"`{clip(name)}`" for name in names[:3]) + (
        f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    )


def write_users(run: ImportRun) -> dict[str, int]:
    """Add and change the users of the document. Return the primary key of each user in it, by name."""
    ids: dict[str, int] = {}
    users = run.document.users
    for chunk in chunks(dict.fromkeys([*users, *sorted(_user_names(run.document))])):
        rows = User.objects.filter(username__in=chunk).values_list(
            "username", "pk", "is_active", "email", "is_principal"
        )
        stored = {name: row for name, *row in rows}
        ids.update((name, row[0]) for name, row in stored.items())
        _update_users(run, stored)
    for new in chunks([line for line in users.values() if line.name not in ids]):
        rows = User.objects.bulk_create(
            User(
                username=line.name,
                password=make_password(None),
                email=line.email or "",
                is_active=line.active is not False,
            )
            for line in new
        )
        ids.update((user.username, user.pk) for user in rows)
        run.report.warnings += _warnings_of_old_names("user", [user.username for user in rows])
        statuses = ["active" if user.is_active else "inactive" for user in rows]
        run.report.changes.update((Counted.USERS_ADDED, status) for status in statuses)
        run.record(
            [
                JournalEntry("user-add", principal=str(user), detail="" if user.is_active else "inactive")
                for user in rows
            ]
        )
    return ids


def _warnings_of_old_names(kind: str, names: list[str]) -> list[str]:
    """Return a warning for each new principal with a name that another one gave up: it gets the access of the
    document, and the other one keeps its own. Runs one query for every ROWS_PER_STATEMENT names.
    """
    renames: dict[str, str] = {}
    for chunk in chunks([principal_text(kind, name) for name in names]):
        lines = JournalLine.objects.filter(action=f"{kind}-rename", principal__in=chunk)
        renames |= dict(lines.order_by("revision").values_list("principal", "detail"))
    return [
        f"`{clip(old)}` was renamed to `{clip(new)}`, which keeps its access: this document adds another {kind} of "
        "the old name"
        for old, new in sorted(renames.items())
    ]


def _update_users(run: ImportRun, stored: dict[str, list]) -> None:
    entries, rows, switched = [], [], []
    for name, (pk, active, email, is_principal) in stored.items():
        principal, line = f"user:{name}", run.document.users.get(name)
        new_active = active if line is None or line.active is None else line.active
        new_email = email if line is None or line.email is None else line.email
        changes = []
        if new_active != active:
            changes.append(JournalEntry(f"user-{'activate' if new_active else 'deactivate'}", principal))
            switched.append(pk)
        if new_email != email:
            changes.append(JournalEntry("user-change", principal, detail=f"email: {new_email}"))
        if not is_principal:
            changes.append(JournalEntry("principal-add", principal))
        if changes:
            rows.append((new_active, new_email, True, pk))
        elif line is not None:
            run.report.unchanged["users"] += 1
        entries += changes
    run.report.changes[Counted.USERS_CHANGED, ""] += len(rows)
    update_rows(User, ("is_active", "email", "is_principal"), rows)
    run.record([*entries, *end_access(switched)])


def write_groups(run: ImportRun) -> dict[str, int]:
    """Add the groups of the document. Return the primary key of each group in it, by name."""
    ids: dict[str, int] = {}
    listed = run.document.groups
    for chunk in chunks(dict.fromkeys([*listed, *sorted(_group_names(run.document))])):
        stored = dict(Group.objects.filter(name__in=chunk).values_list("name", "pk"))
        new = Group.objects.bulk_create(Group(name=name) for name in chunk if name not in stored)
        ids.update(stored | {group.name: group.pk for group in new})
        run.report.warnings += _warnings_of_old_names("group", [group.name for group in new])
        run.record([JournalEntry("group-add", group_text(group.name)) for group in new])
        run.report.changes[Counted.GROUPS_ADDED, ""] += len(new)
        run.report.unchanged["groups"] += len(stored.keys() & listed.keys())
    return ids


def write_members(run: ImportRun, users: dict[str, int], groups: dict[str, int]) -> None:
    """Replace the members of each group that lists its members."""
    membership, report = User.groups.through, run.report
    for chunk in chunks(group for group in run.document.groups.values() if group.members is not None):
        stored = membership.objects.filter(group_id__in=[groups[group.name] for group in chunk])
        existing = {
            (group, user): (pk, Validity(*period))
            for pk, group, user, *period in stored.values_list(
                "pk", "group__name", "user__username", *VALIDITY_COLUMNS
            )
        }
        listed = {(group.name, member): period for group in chunk for member, period in group.members.items()}
        added = [pair for pair in listed if pair not in existing]
        changed = [
            pair for pair, period in listed.items() if pair in existing and existing[pair][1] != period
        ]
        removed = [pair for pair in existing if pair not in listed]
        insert_rows(
            membership,
            ("user_id", "group_id", *VALIDITY_COLUMNS),
            [(users[user], groups[group], *map(database_time, listed[group, user])) for group, user in added],
        )
        update_rows(
            membership,
            VALIDITY_COLUMNS,
            [(*map(database_time, listed[pair]), existing[pair][0]) for pair in changed],
        )
        for pairs in chunks(removed):
            membership.objects.filter(pk__in=[existing[pair][0] for pair in pairs]).delete()
        if changed_groups := {groups[group] for group, _ in (*added, *changed, *removed)}:
            write_role_memberships(changed_groups)
        run.record(
            [
                *(_member_change("member-add", *pair, listed[pair]) for pair in added),
                *(_member_change("member-add", *pair, listed[pair], existing[pair][1]) for pair in changed),
                *(_member_change("member-remove", *pair) for pair in removed),
            ]
        )
        report.changes[Counted.MEMBERS_ADDED, ""] += len(added)
        for group, user in changed:
            is_limited = listed[group, user].is_limited
            report.changes[Counted.MEMBERS_CHANGED if is_limited else Counted.MEMBER_PERIODS_REMOVED, ""] += 1
            if not is_limited:
                report.warn_of_removed_period(
                    run.document.groups[group].line,
                    f"`user:{user}` in `{group_text(group)}`",
                    existing[group, user][1],
                )
        report.changes[Counted.MEMBERS_REMOVED, ""] += len(removed)
        report.unchanged["members"] += len(listed) - len(added) - len(changed)


def write_role_groups(run: ImportRun) -> None:
    """Replace the groups of each role that lists its members. Runs one query for the stored ones, and those of
    `write_memberships`.
    """
    listed = {
        (group, line.name): period
        for line in run.document.groups.values()
        for group, period in (line.groups or {}).items()
    }
    roles = [line.name for line in run.document.groups.values() if line.groups is not None]
    if not roles:
        return
    rows = RoleGroup.objects.filter(role__name__among=roles).order_by("role__name", "group__name")
    columns = ("group__name", "role__name")
    stored = {
        (group, role): Validity(*period)
        for group, role, *period in rows.values_list(*columns, *VALIDITY_COLUMNS)
    }
    changes = [
        *(Exclude(*pair) for pair in stored.keys() - listed.keys()),
        *(Include(*pair, period) for pair, period in listed.items() if stored.get(pair) != period),
    ]
    if changes:
        names = {name for change in changes for name in change.key}
        write_memberships(run.head, run.author, changes, principals_by_name(names))
    for change in changes:
        is_stored = (change.group, change.role) in stored
        counted = Counted.MEMBERS_CHANGED if is_stored else Counted.MEMBERS_ADDED
        run.report.changes[Counted.MEMBERS_REMOVED if isinstance(change, Exclude) else counted, ""] += 1
    run.report.unchanged["members"] += len(listed) - sum(isinstance(change, Include) for change in changes)


def _member_change(
    action: str, group: str, user: str, period: Validity = NO_LIMITS, before: Validity | None = None
) -> JournalEntry:
    return JournalEntry(
        action, principal=f"user:{user}", detail=period_detail(period, group_text(group), before=before)
    )
