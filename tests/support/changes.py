"""Make changes in one line: the verbs of change sets as functions."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group

from entities.address import Address, parse_address
from entities.vocabulary import Privilege, privilege_by_name
from grants.change_set import (
    Activate,
    ActivateGeneration,
    Deactivate,
    Delete,
    Grant,
    Join,
    Leave,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
)
from grants.changes import ChangeSet, Outcome, apply
from grants.changes.memberships import changed_members
from grants.grant_attributes import GrantAttributes
from grants.journal import Author
from grants.models import ActiveGeneration, Plan, User
from grants.plans.sources.changes import change_set_plan
from grants.policies.catalogue import generation_by_name
from grants.principal_names import format_principal
from grants.validity import Validity

Spec = tuple


def grants_and_revocations(grant: Iterable[Spec] = (), revoke: Iterable[Spec] = ()) -> list[Grant | Revoke]:
    """Return the changes of tuples: principal, address, privilege, and for grants perhaps the period."""
    return [
        *(Grant(*_grant_key(*spec[:3]), *spec[3:]) for spec in grant),
        *(Revoke(*_grant_key(*spec[:3])) for spec in revoke),
    ]


def _grant_key(principal: str | User | Group, address: Address | str, privilege: Privilege | str) -> tuple:
    return (
        principal if isinstance(principal, str) else format_principal(principal),
        address if isinstance(address, Address) else parse_address(address),
        privilege_by_name(privilege),
    )


def change_grants(
    *,
    author: Author,
    grant: Iterable[Spec] = (),
    revoke: Iterable[Spec] = (),
    base_revision: int | None = None,
    attributes: dict | None = None,
) -> Outcome:
    return apply(
        ChangeSet.of(*grants_and_revocations(grant, revoke)),
        author=author,
        base_revision=base_revision,
        attributes=GrantAttributes(**{"reason": author.reason, **attributes}) if attributes else None,
    )


def change_memberships(
    *,
    author: Author,
    join: Iterable[Join] = (),
    leave: Iterable[Leave] = (),
    base_revision: int | None = None,
) -> Outcome:
    return apply(ChangeSet.of(*join, *leave), author=author, base_revision=base_revision)


def create_plan_from_changes(
    *,
    author: Author,
    grant: Iterable[Spec] = (),
    revoke: Iterable[Spec] = (),
    join: Iterable[Join] = (),
    leave: Iterable[Leave] = (),
    activate: Iterable[str] = (),
    deactivate: Iterable[str] = (),
    **options,
) -> Plan:
    changes = [
        *grants_and_revocations(grant, revoke),
        *join,
        *leave,
        *map(Activate, activate),
        *map(Deactivate, deactivate),
    ]
    return change_set_plan.create(author, ChangeSet.of(*changes), **options)


def add_member(*, author: Author, user: str, group: str, validity: Validity | None = None) -> Outcome:
    return apply(ChangeSet.of(Join(user, group, validity or Validity())), author=author)


def remove_member(*, author: Author, user: str, group: str) -> Outcome:
    return apply(ChangeSet.of(Leave(user, group)), author=author)


def change_members(
    *, author: Author, group: str, added: Collection[int] = (), removed: Collection[int] = ()
) -> Outcome:
    return apply(changed_members(group, added=added, removed=removed), author=author)


def set_user_active(*, author: Author, name: str, active: bool) -> Outcome:
    return apply(ChangeSet.of(Activate(name) if active else Deactivate(name)), author=author)


def remove_user(*, author: Author, name: str, revokes_grants: bool = False) -> Outcome:
    return apply(ChangeSet.of(RemovePrincipal(f"user:{name}", revokes_grants)), author=author)


def remove_group(*, author: Author, name: str, revokes_grants: bool = False) -> Outcome:
    return apply(ChangeSet.of(RemovePrincipal(f"group:{name}", revokes_grants)), author=author)


def activate_generation(*, author: Author, name: str) -> Outcome:
    return apply(ChangeSet.of(ActivateGeneration(generation_by_name(name))), author=author)


def register_entity(*, generation: str | None = None, author: Author, **fields) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(_live(Register, **fields)), author=author)


def recreate_entity(*, generation: str | None = None, author: Author, **fields) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(_live(Recreate, **fields)), author=author)


def delete_entity(*, generation: str | None = None, author: Author, address: Address) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(Delete(address)), author=author)


def _live(
    state: type[Register | Recreate], address: Address, creator: str | User = "", description: str = ""
) -> Register | Recreate:
    return state(address, format_principal(creator) if creator else "", description)


@contextmanager
def active(generation: str | None) -> Iterator[None]:
    """Let this generation be active; None for the one that is."""
    if generation is None:
        yield
        return
    before = list(ActiveGeneration.objects.all())
    ActiveGeneration.objects.update_or_create(pk=1, defaults={"name": generation_by_name(generation).name})
    try:
        yield
    finally:
        ActiveGeneration.objects.all().delete()
        ActiveGeneration.objects.bulk_create(before)
