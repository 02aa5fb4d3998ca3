"""Write the memberships of a change set, of users in groups and of groups in roles, and their journal lines."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from django.utils import timezone

from grants.authority.transactions import administrator_transaction
from grants.bulk_rows import chunks, database_time, insert_rows, update_rows
from grants.change_set import ChangeSet, Exclude, Include, Join, Key, Leave, MembershipChange
from grants.changes.grants import Principals, StoredRow, changes_with_effect, mark_as_principals
from grants.guardrails.check import make_within_guardrails
from grants.journal import Author, JournalEntry, append_to_journal
from grants.journal_details import period_detail
from grants.models import JournalHead, Membership, RoleGroup, RoleMembership, User
from grants.outcomes import Outcome
from grants.policies.principals import ROLE_PREFIX, group_text
from grants.principals.services import group_by_name
from grants.querysets import memberships
from grants.role_members import write_role_memberships
from grants.validity import VALIDITY_COLUMNS, Validity

# for each model of memberships: the types of its changes, and the columns of the member and of the group
_TABLES = (
    (Membership, Join | Leave, ("user_id", "group_id")),
    (RoleGroup, Include | Exclude, ("group_id", "role_id")),
)


def write_memberships(
    head: JournalHead, author: Author, changes: Sequence[MembershipChange], principals: Principals
) -> Outcome:
    """Write valid memberships, and those in roles that follow from them. Accounts that join a group become principals.

    principals: those of the changes, by written name. The number of statements does not grow with the number
    of changes, up to `ROWS_PER_STATEMENT`.
    """
    existing = existing_memberships(changes, principals)
    joined, changed, left = changes_with_effect(changes, existing)

    def pks(changes: Iterable[MembershipChange]) -> list[list[int]]:
        return [[principals[name].pk for name in change.key] for change in changes]

    for model, types, columns in _TABLES:
        ended, limited, new = (
            [change for change in part if isinstance(change, types)] for part in (left, changed, joined)
        )
        for chunk in chunks(ended):
            model.objects.filter(pk__in=[existing[change.key].pk for change in chunk]).delete()
        update_rows(
            model,
            VALIDITY_COLUMNS,
            [(*map(database_time, change.validity), existing[change.key].pk) for change in limited],
        )
        insert_rows(
            model,
            [*columns, *VALIDITY_COLUMNS],
            [
                (*pair, *map(database_time, change.validity))
                for pair, change in zip(pks(new), new, strict=True)
            ],
        )
        pairs = pks((*ended, *limited, *new))
        if model is RoleGroup:
            write_role_memberships({group for group, _ in pairs})
        else:
            write_role_memberships({group for _, group in pairs}, {user for user, _ in pairs})
    new_principals = mark_as_principals([change.key[0] for change in (*joined, *changed)], principals)
    if joined or left or changed:
        append_to_journal(
            head,
            [
                *map(membership_entry, left),
                *(JournalEntry("principal-add", principal=name) for name in new_principals),
                *map(membership_entry, joined),
                *(membership_entry(change, existing[change.key].validity) for change in changed),
            ],
            author=author,
        )
    made = (*joined, *changed, *left)
    before = {change.key: existing[change.key].validity for change in (*changed, *left)}
    unchanged = [change for change in changes if change not in set(made)]
    outcome = Outcome(
        bool(made),
        _sentence(changes[0], bool(made), before) if len(changes) == 1 else "",
        head.revision,
        made,
        before,
        unchanged=tuple(
            f"{change} {'does not exist' if isinstance(change, Leave | Exclude) else 'exists already'}: nothing changed"
            for change in unchanged
        ),
        principals=new_principals,
    )
    return outcome if outcome.sentence else outcome.with_summary()


def role_group_fault(change: Include | Exclude) -> str:
    """Return why the group cannot be in the role; empty if it can."""
    if not change.role.startswith(ROLE_PREFIX):
        return f"{group_text(change.role)} is not a role: only roles contain groups"
    if change.group.startswith(ROLE_PREFIX):
        return f"a role cannot contain a role: add the members of {change.group} to {change.role}"
    return ""


def changed_members(group: str, *, added: Collection[int] = (), removed: Collection[int] = ()) -> ChangeSet:
    """Return the changes that add users to a group and remove users from it, by primary key.

    Memberships in force and unknown keys are left out. Added users are members without limits: an existing
    membership that is not in force loses its period. Runs four queries. Raise PrincipalError if the group
    does not exist.
    """
    members = memberships().filter(group=group_by_name(group))
    at = timezone.now()
    in_force = {
        user
        for user, *period in members.filter(user__pk__among=set(added)).values_list(
            "user_id", *VALIDITY_COLUMNS
        )
        if Validity(*period).includes(at)
    }
    leaving = members.filter(user__pk__among=set(removed) - set(added)).order_by("user__username")
    joining = User.objects.filter(pk__among=set(added) - in_force).order_by("username")
    return ChangeSet.of(
        *(Leave(name, group) for name in leaving.values_list("user__username", flat=True)),
        *(Join(name, group) for name in joining.values_list("username", flat=True)),
    )


def remove_all_memberships(*, author: Author, user: User) -> Outcome:
    """Remove a user from all groups. One person may always do this, because it only ends access."""
    with administrator_transaction(author, allows_provisioner=True) as head:
        groups = list(user.groups.order_by("name").values_list("name", flat=True))

        def leave() -> None:
            memberships().filter(user=user).delete()
            RoleMembership.objects.filter(user=user).delete()
            append_to_journal(
                head,
                [
                    JournalEntry("member-remove", principal=str(user), detail=group_text(name))
                    for name in groups
                ],
                author=author,
            )

        make_within_guardrails(
            head, author, [Leave(user.username, name) for name in groups], leave, is_ending=True
        )
        return Outcome(bool(groups), f"{user} was removed from {len(groups):,} groups", head.revision)


def existing_memberships(changes: Sequence[MembershipChange], principals: Principals) -> dict[Key, StoredRow]:
    """Return the memberships that exist, by the keys of the changes."""
    existing: dict[Key, StoredRow] = {}
    for model, types, columns in _TABLES:
        for chunk in chunks([change for change in changes if isinstance(change, types)]):
            by_pks = {tuple(principals[name].pk for name in change.key): change for change in chunk}
            members, groups = map(set, zip(*by_pks, strict=True))
            rows = model.objects.filter(**{f"{columns[0]}__in": members, f"{columns[1]}__in": groups})
            for pk, valid_from, valid_until, *pks in rows.values_list("pk", *VALIDITY_COLUMNS, *columns):
                if change := by_pks.get(tuple(pks)):
                    existing[change.key] = StoredRow(pk, Validity(valid_from, valid_until))
    return existing


def _sentence(change: MembershipChange, has_changed: bool, before: Mapping[Key, Validity]) -> str:
    """Return what a single change does."""
    member, group = change.key
    if isinstance(change, Leave | Exclude):
        return (
            f"{member} is no longer in {group}"
            if has_changed
            else f"{member} is not in {group}: nothing changed"
        )
    words = f" {change.validity.sentence}" if change.validity.is_limited else ""
    if not has_changed:
        return f"{member} is in {group}{words} already: nothing changed"
    if change.key in before:
        return f"{member} is in {group}{words or ' without an end date'} now"
    return f"{member} is in {group}{words or ' now'}"


def membership_entry(change: MembershipChange, before: Validity | None = None) -> JournalEntry:
    """Return the content of the journal line of a change. before: the period that it replaces."""
    member, group = change.key
    if isinstance(change, Leave | Exclude):
        return JournalEntry("member-remove", principal=member, detail=group)
    detail = period_detail(change.validity, group, before=before)
    return JournalEntry("member-add", principal=member, detail=detail)
