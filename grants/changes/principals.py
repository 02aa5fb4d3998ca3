"""Change users and groups: activate and deactivate users, make accounts principals, and remove users and
groups for good.

To end the access of a person, off-board the user instead of removing it: a removal cannot be undone. The
journal keeps the names.
"""

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from entities.vocabulary import clip
from grants.authority.four_eyes import check_direct_change
from grants.change_set import Activate, Deactivate, Exclude, Leave, MakePrincipal, RemovePrincipal, Revoke
from grants.changes.grants import grant_entry
from grants.changes.guardrails import end_exceptions, naming_guardrail
from grants.changes.memberships import membership_entry
from grants.errors import PrincipalError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import PRINCIPAL_TYPES, GrantQuerySet, JournalHead, RoleGroup, User
from grants.outcomes import Outcome
from grants.principal_names import parse_principal
from grants.principals.hooks import end_access, end_duties, name_guard_fault, remove_account_data
from grants.principals.services import (
    check_another_administrator,
    managed_user,
    principal_by_name,
    user_by_name,
)
from grants.querysets import memberships
from grants.stewards import end_stewardships


def write_activation(
    head: JournalHead, author: Author, change: Activate | Deactivate, *, detail: str
) -> Outcome:
    """Activate or deactivate a user. detail: of the journal line.

    An inactive user cannot sign in and is denied everything. The tokens are revoked and the sessions end. The
    grants and memberships remain, and apply again after activation.
    """
    is_active = isinstance(change, Activate)
    # a provisioning service can always end access
    is_ending = author.is_provisioner and not is_active
    user = user_by_name(change.user) if is_ending else managed_user(author, change.user)
    word = "active" if is_active else "inactive"
    if user.is_active == is_active:
        return _unchanged(head, f"{user} is {word} already: nothing changed")
    if not is_active:
        check_another_administrator(user)
    User.objects.filter(pk=user.pk).update(is_active=is_active)
    entry = JournalEntry(f"user-{change.verb}", principal=str(user), detail=detail)
    # also at activation, because version 1.0 did not end tokens and sessions at deactivation
    append_to_journal(head, [entry, *end_access([user.pk])], author=author)
    return Outcome(True, f"{user} is {word} now", head.revision, (change,))


def write_principal(head: JournalHead, author: Author, change: MakePrincipal) -> Outcome:
    """Make an account of the console a principal, which can be granted privileges."""
    user = managed_user(author, change.user)
    if user.is_principal:
        return _unchanged(head, f"{user} is a principal already: nothing changed")
    User.objects.filter(pk=user.pk).update(is_principal=True)
    append_to_journal(head, [JournalEntry("principal-add", principal=str(user))], author=author)
    sentence = f"{user} was an account of the console; it is a principal now"
    return Outcome(True, sentence, head.revision, (change,))


def write_removal(head: JournalHead, author: Author, change: RemovePrincipal) -> Outcome:
    """Remove a user or group with its memberships; a user also with tokens, sessions and identity links.

    Raise PrincipalError for a principal with grants unless they are revoked too, for the author's own
    account, and for the last active administrator.
    """
    principal_type, name = parse_principal(change.principal)
    principal: User | Group = principal_by_name(principal_type, name)
    grants = PRINCIPAL_TYPES[principal_type].grants_to(principal)
    members = memberships().filter(**{principal_type: principal})
    is_of_role = Q(role=principal) | Q(group=principal) if isinstance(principal, Group) else Q(pk__in=())
    role_groups = RoleGroup.objects.filter(is_of_role)
    _check_removal(author, principal, change.principal)
    if not change.revokes_grants and grants.exists():
        raise PrincipalError(
            f"{clip(change.principal)} has grants, which would end with the {principal_type}: revoke them first"
        )
    revoked, left = _revocations(grants), [*_departures(members), *_exclusions(role_groups)]
    check_direct_change(author, [*revoked, *left])
    # with the derived ones
    PRINCIPAL_TYPES[principal_type].held_grants.filter(**{principal_type: principal}).delete()
    members.delete()
    if isinstance(principal, User):
        ended = [*end_duties(principal), *end_access([principal.pk]), *remove_account_data(principal)]
    else:
        ended = [*end_stewardships(principal), *end_exceptions(principal)]
    principal.delete()
    removal = JournalEntry(f"{principal_type}-remove", principal=change.principal)
    append_to_journal(
        head, [*map(grant_entry, revoked), *map(membership_entry, left), *ended, removal], author=author
    )
    return Outcome(True, f"{change.principal} was removed", head.revision, (change,))


def _check_removal(author: Author, principal: User | Group, name: str) -> None:
    if guardrail := naming_guardrail(principal):
        raise PrincipalError(f"guardrail {guardrail} names {name}: change or delete the guardrail first")
    if isinstance(principal, User):
        if principal.pk == author.user_id:
            raise PrincipalError(f"{name} is your own account: another administrator must remove it")
        check_another_administrator(principal)
    # a provisioning service may remove its own groups
    elif author.is_provisioner:
        return
    if fault := name_guard_fault(principal):
        raise PrincipalError(f"{name} cannot be removed: {fault}")


def _revocations(grants: GrantQuerySet) -> list[Revoke]:
    """Return the revocation of each direct grant of the principal, by address."""
    rows = grants.order_by("content_object__kind", "content_object__key", "permission_id")
    return [Revoke(*key) for key in rows.grant_keys()]


def _departures(members: QuerySet) -> list[Leave]:
    columns = ("user__username", "group__name")
    return [Leave(*names) for names in members.order_by(*columns).values_list(*columns)]


def _exclusions(role_groups: QuerySet) -> list[Exclude]:
    columns = ("group__name", "role__name")
    return [Exclude(*names) for names in role_groups.order_by(*columns).values_list(*columns)]


def _unchanged(head: JournalHead, sentence: str) -> Outcome:
    return Outcome(False, sentence, head.revision, unchanged=(sentence,))
