"""Change many memberships of a group or of a user with a constant number of statements."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.text import storage_fault
from entities.vocabulary import clip
from grants.bulk_rows import insert_rows
from grants.changes.authority import administrator_transaction
from grants.changes.four_eyes import check_direct_change
from grants.changes.outcomes import Outcome
from grants.errors import PrincipalError
from grants.journal import Author, Change, append_to_journal
from grants.journal_details import period_detail
from grants.models import User
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS, Validity


@dataclass(frozen=True, slots=True)
class MembershipChanges:
    """The sorted names of the users whose membership changed. added: also members whose membership was not in
    force.
    """

    added: list[str]
    removed: list[str]


def change_members(
    *, author: Author, group: str, added: Collection[int] = (), removed: Collection[int] = ()
) -> MembershipChanges:
    """Add users to a group and remove users from it, by primary key. Memberships in force and unknown keys
    are skipped.

    Added users are members without limits: an existing membership that is not in force loses its period. An
    account that is not a principal becomes a principal. Each change has a journal line. The number of
    statements does not depend on the number of users, except for the batches of journal lines. Raise
    PrincipalError if the group does not exist.
    """
    with administrator_transaction(author, allows_provisioner=True) as head:
        stored_group = _group(group)
        members = memberships().filter(group=stored_group)
        removed_rows = list(
            members.filter(user__pk__among=set(removed) - set(added))
            .order_by("user__username")
            .values_list("pk", "user__username")
        )
        at = timezone.now()
        existing = {
            user: (pk, Validity(*period))
            for user, pk, *period in members.filter(user__pk__among=set(added)).values_list(
                "user_id", "pk", *VALIDITY_COLUMNS
            )
        }
        in_force = {user for user, (_, period) in existing.items() if period.includes(at)}
        added_rows = list(
            User.objects.filter(pk__among=set(added) - in_force)
            .order_by("username")
            .values_list("pk", "username", "is_principal")
        )
        if not added_rows and not removed_rows:
            return MembershipChanges([], [])
        insert_rows(
            memberships().model,
            ["user_id", "group_id"],
            [(pk, stored_group.pk) for pk, *_ in added_rows if pk not in existing],
        )
        if replaced := [existing[pk][0] for pk, *_ in added_rows if pk in existing]:
            memberships().filter(pk__among=replaced).update(**dict.fromkeys(VALIDITY_COLUMNS))
        memberships().filter(pk__among=[pk for pk, _ in removed_rows]).delete()
        new_principals = {pk for pk, _, is_principal in added_rows if not is_principal}
        User.objects.filter(pk__among=new_principals).update(is_principal=True)
        changes = [
            Change("member-remove", principal=f"user:{name}", detail=f"group:{group}")
            for _, name in removed_rows
        ]
        for pk, name, _ in added_rows:
            before = existing[pk][1] if pk in existing else None
            changes += _addition_lines(group, name, before, is_new_principal=pk in new_principals)
        append_to_journal(head, changes, author=author)
        result = MembershipChanges([name for _, name, _ in added_rows], [name for _, name in removed_rows])
        check_direct_change(
            author,
            joined=[(name, group) for name in result.added],
            left=[(name, group) for name in result.removed],
            is_written=True,
        )
    return result


def _addition_lines(
    group: str, name: str, before: Validity | None, *, is_new_principal: bool
) -> Iterator[Change]:
    """Yield the journal lines for a new member. before: the period of a membership that was not in force."""
    if is_new_principal:
        yield Change("principal-add", principal=f"user:{name}")
    yield Change(
        "member-add",
        principal=f"user:{name}",
        detail=period_detail(Validity(), f"group:{group}", before=before),
    )


def remove_all_memberships(*, author: Author, user: User) -> Outcome:
    """Remove a user from all groups."""
    with administrator_transaction(author, allows_provisioner=True) as head:
        groups = list(user.groups.order_by("name").values_list("name", flat=True))
        memberships().filter(user=user).delete()
        append_to_journal(
            head,
            [Change("member-remove", principal=str(user), detail=f"group:{name}") for name in groups],
            author=author,
        )
        return Outcome(bool(groups), f"{user} was removed from {len(groups):,} groups", head.revision)


def _group(name: str) -> Group:
    group = None if storage_fault(name) else Group.objects.filter(name=name).first()
    if group is None:
        raise PrincipalError(
            f"group:{clip(name)} does not exist: add it first, or correct the name", field="group"
        )
    return group
