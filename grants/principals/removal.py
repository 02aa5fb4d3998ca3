"""Remove users and groups for good, with their grants and memberships. The journal keeps their names.

To end the access of a person, off-board the user instead: a removal cannot be undone.
"""

from django.contrib.auth.models import Group

from entities.address import Address, parse_address
from entities.text import storage_fault
from entities.vocabulary import Privilege, clip
from grants.changes.authority import administrator_transaction
from grants.changes.four_eyes import check_direct_change
from grants.changes.outcomes import ChangeItem, Outcome
from grants.errors import PrincipalError
from grants.journal import Author, Change, append_to_journal
from grants.models import GRANT_TABLES, GroupGrant, Role, User, UserGrant, privilege_of
from grants.principals.access_ending import end_access
from grants.principals.removal_hooks import name_guard_fault, remove_account_data
from grants.querysets import memberships
from grants.stewards.ending import end_stewardships


def remove_user(*, author: Author, name: str, revokes_grants: bool = False) -> Outcome:
    """Remove a user with memberships, tokens, sessions and identity links.

    revokes_grants: also revoke the direct grants; otherwise raise PrincipalError if there are any. Raise
    PrincipalError for the author's own account, and for the last active administrator.
    """
    with administrator_transaction(author) as head:
        user = None if storage_fault(name) else User.objects.filter(username=name).first()
        if user is None:
            raise PrincipalError(f"user:{clip(name)} does not exist: correct the name", field="user")
        if user.pk == author.user_id:
            raise PrincipalError(f"{user} is your own account: another administrator must remove it")
        if (
            user.can_administer
            and not User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk).exists()
        ):
            raise PrincipalError(
                f"{user} is the only active administrator of this console: add another administrator first"
            )
        _check_guards(user, str(user))
        _check_grants(str(user), UserGrant.objects.filter(user=user).exists() and not revokes_grants)
        revoked = _revocations("user", user)
        groups = list(user.groups.order_by("name").values_list("name", flat=True))
        left = [Change("member-remove", principal=str(user), detail=f"group:{group}") for group in groups]
        check_direct_change(author, revoked=_items(revoked), left=[(name, group) for group in groups])
        UserGrant.objects.filter(user=user).delete()
        memberships().filter(user=user).delete()
        ended = [*end_stewardships(user), *end_access([user.pk]), *remove_account_data(user)]
        user.delete()
        append_to_journal(
            head, [*revoked, *left, *ended, Change("user-remove", principal=f"user:{name}")], author=author
        )
        return Outcome(True, f"user:{name} was removed", head.revision)


def remove_group(*, author: Author, name: str, revokes_grants: bool = False) -> Outcome:
    """Remove a group with its memberships.

    revokes_grants: also revoke its grants; otherwise raise PrincipalError if it has any.
    """
    with administrator_transaction(author, allows_provisioner=not revokes_grants) as head:
        group = None if storage_fault(name) else Group.objects.filter(name=name).first()
        if group is None:
            raise PrincipalError(
                f"group:{clip(name)} does not exist: add it first, or correct the name", field="group"
            )
        # a provisioning service may remove its own groups
        if not author.is_provisioner:
            _check_guards(group, f"group:{name}")
        _check_grants(f"group:{name}", GroupGrant.objects.filter(group=group).exists() and not revokes_grants)
        revoked = _revocations("group", group)
        users = list(
            memberships()
            .filter(group=group)
            .order_by("user__username")
            .values_list("user__username", flat=True)
        )
        left = [Change("member-remove", principal=f"user:{user}", detail=f"group:{name}") for user in users]
        check_direct_change(author, revoked=_items(revoked), left=[(user, name) for user in users])
        GroupGrant.objects.filter(group=group).delete()
        memberships().filter(group=group).delete()
        ended = end_stewardships(group)
        group.delete()
        append_to_journal(
            head, [*revoked, *left, *ended, Change("group-remove", principal=f"group:{name}")], author=author
        )
        return Outcome(True, f"group:{name} was removed", head.revision)


def _check_guards(principal: User | Group, name: str) -> None:
    if fault := name_guard_fault(principal, is_removal=True):
        raise PrincipalError(f"{name} cannot be removed: {fault}")


def _check_grants(name: str, has_grants: bool) -> None:
    if has_grants:
        kind = name.partition(":")[0]
        raise PrincipalError(f"{clip(name)} has grants, which would end with the {kind}: revoke them first")


def _revocations(kind: str, principal: User | Group) -> list[Change]:
    """Return a change for each direct grant of the principal, by address."""
    model, column = GRANT_TABLES[kind]
    columns = ("content_object__kind", "content_object__key", "permission_id")
    name = f"user:{principal.username}" if isinstance(principal, User) else f"group:{principal.name}"
    rows = model.objects.filter(**{column: principal.pk}).order_by(*columns).values_list(*columns)
    return [
        Change("revoke", name, str(Address(entity_kind, key)), privilege_of(permission).value)
        for entity_kind, key, permission in rows
    ]


def _items(revoked: list[Change]) -> list[ChangeItem]:
    return [
        ChangeItem(change.principal, parse_address(change.entity), Privilege[change.privilege])
        for change in revoked
    ]
