"""Who decides about requests: accounts whose role approves, the group or the stewards of a namespace, and
delegates.

INVARIANT: no account decides about a request that it created, or that is for itself.
"""

from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import CharField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat, Left, Length
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import Privilege, clip
from grants.authority.limits import DelegationLimits
from grants.authority.proposals import propose_first
from grants.authority.rights import approvers_of, is_approver
from grants.authority.stewards import stewarded_namespaces
from grants.authority.transactions import administrator_transaction
from grants.errors import RequestError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import (
    GRANT_SOURCES,
    USER,
    AccessRequest,
    AccessRequestPart,
    Belonging,
    NamespaceApprovers,
    RequestState,
    User,
    permission_ids,
)
from grants.outcomes import Outcome
from grants.policies.explain import MissingGrant
from grants.policies.principals import group_text
from grants.roles.capabilities import DELEGATE_ROLES, Capability, roles_with
from grants.validity import Validity, in_force_condition

# above this number of grants outside of its namespaces, an account can approve a part only if it decides
# about all parts
MAX_GRANTS_CHECKED = 50
MAX_APPROVERS = 100


@frozen
class ApproverScope:
    """The parts about which an account decides. decides_all: whether these are all parts.

    namespaces: the names of those for which the account decides, as a steward or as a member of the named
    group. sensitive_namespaces: those of the named group, in which it also approves what needs two persons.
    """

    account: User
    decides_all: bool
    namespaces: frozenset[str]
    sensitive_namespaces: frozenset[str] = frozenset()

    def can_decide(self, request: AccessRequest, part: AccessRequestPart) -> bool:
        """Return whether the account may decide about the part.

        `grant_fault` checks the grants of an approval.
        """
        if is_own(request, self.account):
            return False
        if self.decides_all:
            return True
        address = part.address
        # the access of a colleague can reach anything, so only administrators see what it is
        return (
            address is not None
            and not part.is_hidden
            and (self._is_in_namespaces(address) or is_approver(self.account, address))
        )

    def decides_namespace(self, part: AccessRequestPart) -> bool:
        """Return whether the account decides about everything in the namespace of the part."""
        return self.decides_all or part.namespace in self.namespaces

    def can_see_effect(self, grants: Iterable[MissingGrant]) -> bool:
        """Return whether the account may learn what these grants change, and who holds them: it decides about
        each address.

        A part can need grants elsewhere, such as on the artifact of an application. Runs a query for each of
        these addresses.
        """
        if self.decides_all or self.account.can_see_all:
            return True
        others = {address for address, _ in grants if not self._is_in_namespaces(address)}
        return len(others) <= MAX_GRANTS_CHECKED and all(
            is_approver(self.account, address) for address in others
        )

    def grant_fault(self, grants: Iterable[MissingGrant], period: Validity) -> str:
        """Return why the account may not approve these grants for a period; empty if it may."""
        if self.decides_all:
            return ""
        grants = list(grants)
        if settings.FOUR_EYES and any(map(self._is_too_sensitive, grants)):
            return (
                "ADMIN and grants in protected namespaces need an administrator, an approver, or the group of the "
                "namespace"
            )
        others = [grant for grant in grants if not self._is_in_namespaces(grant[0])]
        if len(others) > MAX_GRANTS_CHECKED or not all(is_approver(self.account, *grant) for grant in others):
            return "you may not grant all of this, so another approver decides"
        limits = DelegationLimits.for_account(self.account)
        return next(filter(None, (limits.fault(*grant, period) for grant in others)), "")

    def _is_too_sensitive(self, grant: MissingGrant) -> bool:
        """Return whether stewards and delegates may not approve the grant."""
        address, privilege = grant
        namespace = address.namespace.key if address.namespace else ""
        is_sensitive = privilege == Privilege.ADMIN or namespace in settings.PROTECTED_NAMESPACES
        return is_sensitive and namespace not in self.sensitive_namespaces

    def _is_in_namespaces(self, address: Address) -> bool:
        namespace = address.namespace
        return namespace is not None and namespace.key in self.namespaces


def approver_scope(account: User) -> ApproverScope:
    """Return what the account decides about.

    Runs two queries for accounts whose role does not decide about everything.
    """
    if not account.is_active or account.can(Capability.APPROVE):
        return ApproverScope(account, account.can(Capability.APPROVE), frozenset())
    groups = Belonging.objects.filter(in_force_condition(), user=account).values("group")
    named = frozenset(NamespaceApprovers.objects.filter(group__in=groups).values_list("namespace", flat=True))
    return ApproverScope(account, False, named | stewarded_namespaces(account), named)


def is_own(request: AccessRequest, account: User) -> bool:
    """Return whether the request is for this account, or was created by it."""
    return account.pk in (request.subject_id, request.creator_id)


def own_requests(account: User) -> QuerySet[AccessRequest]:
    """Return the requests for which `is_own` is true."""
    return AccessRequest.objects.filter(Q(subject=account) | Q(creator=account))


def decidable_requests(account: User) -> QuerySet[AccessRequest]:
    """Return the requests, in any state, with a part about which the account may decide."""
    scope = approver_scope(account)
    # not `exclude`, which would also hide requests without a subject or a creator
    others = AccessRequest.objects.filter(
        ~Q(subject=account) | Q(subject=None), ~Q(creator=account) | Q(creator=None)
    )
    if scope.decides_all:
        return others
    parts = AccessRequestPart.objects.filter(
        Q(namespace__in=scope.namespaces) | _delegated_condition(account),
        request=OuterRef("pk"),
        is_hidden=False,
    )
    return others.filter(Exists(parts))


def _delegated_condition(account: User) -> Q:
    """Return the condition that the account holds ADMIN on the address of a part or on a container of it
    (`is_delegate`).
    """
    limits = DelegationLimits.for_account(account)
    if not (
        settings.DELEGATION
        and account.is_active_principal
        and account.role in DELEGATE_ROLES
        and limits.privileges
    ):
        return Q(pk__in=[])
    is_delegated = Q(pk__in=[])
    for source in GRANT_SOURCES[USER.name]:
        grants = source.rows(
            permission_id=permission_ids()[Privilege.ADMIN],
            content_object__state=State.LIVE,
            **{source.subject: account},
        )
        part_key = ExpressionWrapper(OuterRef("key"), CharField())
        # not `startswith`, which ignores case in SQLite
        applications = (
            grants.filter(content_object__kind="application")
            .annotate(start=Left(part_key, Length("content_object__key") + 1))
            .filter(start=Concat("content_object__key", Value(".")))
        )
        is_delegated |= (
            Q(Exists(grants.filter(content_object__kind="instance")))
            | Q(
                Exists(
                    grants.filter(content_object__kind="namespace", content_object__key=OuterRef("namespace"))
                )
            )
            | Q(
                Exists(
                    grants.filter(content_object__kind=OuterRef("kind"), content_object__key=OuterRef("key"))
                )
            )
            | (Q(kind="program") & Q(Exists(applications)))
        )
    return is_delegated & (~Q(kind="") if limits.kinds is None else Q(kind__in=limits.kinds))


def requests_to_decide(account: User) -> QuerySet[AccessRequest]:
    """Return the pending requests that wait for the account, without those that wait for an answer of the
    requester.
    """
    return decidable_requests(account).filter(
        state=RequestState.PENDING, waits_for_answer=False, expires_at__gt=timezone.now()
    )


def requests_to_answer(account: User) -> QuerySet[AccessRequest]:
    """Return the pending requests of the account with a question that it has not answered yet."""
    return own_requests(account).filter(
        state=RequestState.PENDING, waits_for_answer=True, expires_at__gt=timezone.now()
    )


def visible_requests(account: User) -> QuerySet[AccessRequest]:
    """Return the requests that the account may see: all, if it sees everything, or its own and those about
    which it decides.
    """
    if account.can_see_all:
        return AccessRequest.objects.all()
    own, decidable = own_requests(account).values("pk"), decidable_requests(account).values("pk")
    return AccessRequest.objects.filter(Q(pk__in=own) | Q(pk__in=decidable))


def listed_requests(account: User, show: str, state: str) -> QuerySet[AccessRequest]:
    """Return the requests of a list, with their subjects.

    show: `mine`, `to-decide`, or another text for all that the account may see. state: see `in_state`.
    """
    match show:
        case "mine":
            rows = own_requests(account)
        case "to-decide":
            rows = requests_to_decide(account)
        case _:
            rows = visible_requests(account)
    return in_state(rows, state).select_related("subject")


def in_state(rows: QuerySet[AccessRequest], state: str) -> QuerySet[AccessRequest]:
    """Return the rows in this state; all of them for an empty text. Overdue requests count as expired."""
    is_overdue = Q(state=RequestState.PENDING, expires_at__lte=timezone.now())
    match state:
        case "":
            return rows
        case RequestState.PENDING:
            return rows.filter(state=state).exclude(is_overdue)
        case RequestState.EXPIRED:
            return rows.filter(Q(state=state) | is_overdue)
    return rows.filter(state=state)


def approver_accounts(request: AccessRequest) -> list[User]:
    """Return the active accounts to notify about a request, by name, at most MAX_APPROVERS."""
    accounts = {
        user.pk: user
        for user in User.objects.filter(
            role__in=roles_with(Capability.APPROVE), is_active=True, is_service=False
        )[:MAX_APPROVERS]
    }
    for part in request.parts.all():
        # only accounts that approve everything decide about hidden parts
        if part.address is None or part.is_hidden:
            continue
        groups = NamespaceApprovers.objects.filter(namespace=part.namespace).values("group")
        members = Belonging.objects.filter(in_force_condition(), group__in=groups).values("user")
        for users in (User.objects.filter(is_active=True, pk__in=members), approvers_of(part.address)):
            accounts |= {user.pk: user for user in users[:MAX_APPROVERS]}
    return sorted(
        (user for user in accounts.values() if not is_own(request, user)), key=lambda user: user.username
    )[:MAX_APPROVERS]


def set_namespace_approvers(*, author: Author, namespace: Address, group: str) -> Outcome:
    """Let the members of a group decide about requests for a namespace; an empty `group` ends this. With
    FOUR_EYES, the first of two administrators only proposes a group.

    Raise RequestError if the address is not one of a namespace, or there is no such group.
    """
    if namespace.kind != "namespace":
        raise RequestError(f"{namespace} is not a namespace")
    with administrator_transaction(author) as head:
        before = NamespaceApprovers.objects.select_related("group").filter(namespace=namespace.key).first()
        if group == (before.group.name if before else ""):
            return Outcome(
                False, f"the approvers of {namespace} are the same: nothing changed", head.revision
            )
        entry = JournalEntry(
            "approvers-set",
            principal=group_text(group) if group else "",
            entity=str(namespace),
            detail=f"instead of {group_text(before.group.name)}" if before else "",
        )
        if not group:
            before.delete()
        else:
            row = Group.objects.filter(name=group).first()
            if row is None:
                raise RequestError(
                    f"{group_text(clip(group))} does not exist: add it first, or correct the name"
                )
            title = f"{group_text(group)} as the approvers of {namespace}"
            if proposed := propose_first(head, author, entry, "approvers-propose", title):
                return proposed
            NamespaceApprovers.objects.update_or_create(namespace=namespace.key, defaults={"group": row})
        append_to_journal(head, [entry], author=author)
    return Outcome(True, f"the approvers of {namespace} are changed", head.revision)
