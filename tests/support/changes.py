"""Make changes in one line: the verbs of change sets, plans and principals as functions.

The author is a command by default. Addresses may be texts.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group

from authzconsole.common.tokens import IssuedToken, create_token
from entities.address import Address, parse_grantable
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
    Rename,
    Revoke,
)
from grants.changes import ChangeSet, Outcome, Shown, apply
from grants.changes.memberships import changed_members
from grants.grant_attributes import GrantAttributes
from grants.journal import Author
from grants.models import ActiveGeneration, JournalLine, Plan, User
from grants.plans import apply as plan_services
from grants.plans import renew
from grants.plans.sources.changes import change_set_plan
from grants.policies.catalogue import generation_by_name
from grants.principal_names import format_principal
from grants.principals import services
from grants.validity import Validity
from tests.support.authors import COMMAND

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
        _address(address),
        privilege_by_name(privilege),
    )


def _address(address: Address | str) -> Address:
    return address if isinstance(address, Address) else parse_grantable(address)


def change_grants(
    *,
    grant: Iterable[Spec] = (),
    revoke: Iterable[Spec] = (),
    author: Author = COMMAND,
    base_revision: int | None = None,
    attributes: dict | None = None,
) -> Outcome:
    return apply(
        ChangeSet.of(*grants_and_revocations(grant, revoke)),
        author=author,
        base_revision=base_revision,
        attributes=GrantAttributes(**{"reason": author.reason, **attributes}) if attributes else None,
    )


def add_grant(*spec, author: Author = COMMAND) -> Outcome:
    return change_grants(grant=[spec], author=author)


def revoke_grant(*spec, author: Author = COMMAND) -> Outcome:
    return change_grants(revoke=[spec], author=author)


def create_plan_from_changes(
    *,
    author: Author = COMMAND,
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


def change_planned_grants(plan: Plan, **values) -> None:
    """Change the grants of a plan by SQL, such as their periods to past ones. The plan then looks like one of
    an earlier version, without a line about its creation.
    """
    JournalLine.objects.filter(action="plan-create").update(action="run-start")
    plan.items.filter(verb="grant").update(**values)


def items_of(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return (verb, principal, address, privilege) of each item about a grant, in order."""
    return [
        (row.verb, row.principal, str(row.address), str(row.privilege))
        for row in plan.items.filter(permission__isnull=False).order_by("position")
    ]


def apply_plan(plan: Plan, *, author: Author = COMMAND, shown: Shown | None = None) -> Plan:
    return plan_services.apply_plan(author=author, plan_id=plan.pk, shown=shown)


def discard_plan(plan: Plan, *, author: Author = COMMAND) -> Plan:
    return plan_services.discard_plan(author=author, plan_id=plan.pk)


def create_inverse(plan: Plan, *, author: Author = COMMAND) -> Plan:
    return plan_services.inverse_plan.create(author=author, plan_id=plan.pk)


def renew_plan(plan: Plan, *, author: Author = COMMAND) -> Plan:
    return renew.renew_plan(author=author, plan_id=plan.pk)


def add_user(name: str, *, author: Author = COMMAND, **fields) -> Outcome:
    return services.add_user(author=author, name=name, **fields)


def add_group(name: str, *, author: Author = COMMAND) -> Outcome:
    return services.add_group(author=author, name=name)


def issue_token(owner: str, *scopes: str, author: Author = COMMAND) -> IssuedToken:
    return create_token(author=author, owner=owner, name="a test", scopes=scopes, days=1)


def bearer(owner: str, *scopes: str) -> dict[str, str]:
    """Return the header of requests with a new token."""
    return {"Authorization": f"Bearer {issue_token(owner, *scopes).secret}"}


def add_member(
    user: str, group: str, validity: Validity | None = None, *, author: Author = COMMAND
) -> Outcome:
    return apply(ChangeSet.of(Join(user, group, validity or Validity())), author=author)


def remove_member(user: str, group: str, *, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(Leave(user, group)), author=author)


def change_members(
    group: str, *, added: Collection[int] = (), removed: Collection[int] = (), author: Author = COMMAND
) -> Outcome:
    return apply(changed_members(group, added=added, removed=removed), author=author)


def set_user_active(name: str, *, active: bool, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(Activate(name) if active else Deactivate(name)), author=author)


def remove_user(name: str, *, revokes_grants: bool = False, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(RemovePrincipal(f"user:{name}", revokes_grants)), author=author)


def rename_user(*, name: str, new_name: str, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(Rename(f"user:{name}", new_name)), author=author)


def rename_group(*, name: str, new_name: str, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(Rename(f"group:{name}", new_name)), author=author)


def remove_group(name: str, *, revokes_grants: bool = False, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(RemovePrincipal(f"group:{name}", revokes_grants)), author=author)


def activate_generation(name: str, *, author: Author = COMMAND) -> Outcome:
    return apply(ChangeSet.of(ActivateGeneration(generation_by_name(name))), author=author)


def register_entity(
    address: Address | str, *, generation: str | None = None, author: Author = COMMAND, **fields
) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(_live(Register, address, **fields)), author=author)


def recreate_entity(
    address: Address | str, *, generation: str | None = None, author: Author = COMMAND, **fields
) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(_live(Recreate, address, **fields)), author=author)


def delete_entity(
    address: Address | str, *, generation: str | None = None, author: Author = COMMAND
) -> Outcome:
    with active(generation):
        return apply(ChangeSet.of(Delete(_address(address))), author=author)


def _live(
    state: type[Register | Recreate],
    address: Address | str,
    creator: str | User = "",
    description: str = "",
) -> Register | Recreate:
    return state(_address(address), format_principal(creator) if creator else "", description)


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
