"""What an approver sees about a part: the proposals, the current access of the requester, and what colleagues
hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import ANY, KINDS, Privilege
from grants.active_generation import active_generation
from grants.errors import RequestError
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.entity_filters import EntityConditions
from grants.evaluation.facts import gather_facts
from grants.models import AccessRequest, AccessRequestPart, Belonging, RequestState, User
from grants.plans.minimal_grants import Denial, NewGrants
from grants.policies.decide import is_permitted
from grants.policies.explain import NOT_REGISTERED
from grants.policies.grammar import fold, has
from grants.policies.principals import group_text
from grants.policies.question import Question
from grants.requests.approvers import ApproverScope
from grants.requests.proposals import Proposal, proposals_of
from grants.validity import in_force_condition

MAX_EARLIER = 3
MAX_COLLEAGUES, MAX_GRANTS_COMPARED = 200, 10
MAX_ENTITIES = 5
MAX_NAMES_COMPARED = 2_000


@frozen
class ColleagueAccess:
    """How many colleagues hold the grants of a proposal. Colleagues are active users who share a group with
    the requester.

    holders: those who hold the first MAX_GRANTS_COMPARED grants. total: the number of colleagues, at most
    MAX_COLLEAGUES.
    """

    holders: int
    total: int


@frozen
class PartBackground:
    """A part as its approvers see it.

    proposals: the narrowest first. Proposals with a hidden effect are last. fault: why there are none.
    visible_effects: the proposals with an effect that the approver may see.
    state: the state of the address, or `not registered`; empty for a membership.
    operations_later: those that the first proposal permits once the address is live, if it is not live.
    earlier: the newest decisions about parts with the same address that were decided before, at most MAX_EARLIER, with their
    requests.
    similar: registered addresses of the same kind and namespace with a similar name, if it is not registered.
    held: the privileges of the requester on the address, each with the principal that holds the grant.
    colleagues: how many colleagues have the access of the first proposal; None if the approver may not see
    its effect.
    nearby: the first entities in the namespace on which the requester holds a privilege. nearby_count: their
    total number.
    """

    part: AccessRequestPart
    proposals: tuple[Proposal, ...]
    visible_effects: frozenset[Proposal]
    fault: str
    state: str
    held: Mapping[Privilege, str]
    colleagues: ColleagueAccess | None
    nearby: tuple[Address, ...]
    nearby_count: int
    operations_later: tuple[str, ...] = ()
    similar: tuple[Address, ...] = ()
    earlier: tuple[AccessRequestPart, ...] = ()


def part_background(request: AccessRequest, part: AccessRequestPart, scope: ApproverScope) -> PartBackground:
    """Return what the approver with this scope sees.

    The request must have a subject. The number of queries depends on the number of proposals only.
    """
    subject, fault = request.subject, ""
    assert subject is not None, "a removed user has no access"
    try:
        proposals = proposals_of(part, subject, request.requested_until)
    except RequestError as error:
        proposals, fault = [], str(error)
    if not proposals and not fault:
        fault = (
            f"{group_text(part.group_name)} does not exist" if part.group_name else "no grant permits this"
        )
    visible = [proposal for proposal in proposals if scope.can_see_effect(proposal.grants)]
    shown = (
        *visible,
        *(replace(proposal, beyond=None, attached=0) for proposal in proposals if proposal not in visible),
    )
    first = shown[0] if shown else Proposal()
    address = part.address
    entity = entity_at(address) if address else None
    shows_namespace = scope.account.can_see_all or scope.decides_namespace(part)
    nearby, nearby_count = _nearby(subject, entity) if shows_namespace else ((), 0)
    return PartBackground(
        part,
        shown,
        frozenset(visible),
        fault,
        "" if address is None else entity.state if entity else NOT_REGISTERED,
        _held_privileges(subject, address) if address else {},
        _colleagues(subject, first) if first in visible or not shown else None,
        nearby,
        nearby_count,
        _operations_with(subject, address, first) if address and not (entity and entity.is_live) else (),
        _similar_addresses(address)
        if address
        and entity is None
        and shows_namespace
        # the name of a namespace must not reveal others
        and (scope.account.can_see_all or address.kind != "namespace")
        else (),
        _earlier_decisions(part),
    )


def _earlier_decisions(part: AccessRequestPart) -> tuple[AccessRequestPart, ...]:
    """Return the newest decisions about the address of a part. Who decides about the part decides about these too, and so
    sees their requests.
    """
    if part.address is None:
        return ()
    decided = AccessRequestPart.objects.filter(
        kind=part.kind,
        key=part.key,
        state__in=(RequestState.APPROVED, RequestState.DENIED),
        is_hidden=False,
    )
    rows = decided.exclude(request=part.request_id).select_related("request__subject")
    return tuple(rows.order_by("-request", "position")[:MAX_EARLIER])


def can_see_effect(chosen: Iterable[tuple[PartBackground, Proposal]]) -> bool:
    """Return whether the approver may see the effect of the chosen proposals together."""
    return all(proposal in background.visible_effects for background, proposal in chosen)


def _operations_with(subject: User, address: Address, proposal: Proposal) -> tuple[str, ...]:
    """Return the operations on an address that a proposal would permit if an entity without contents were there."""
    generation, grants = active_generation().name, NewGrants()
    for grant in proposal.grants:
        grants.add(grant)
    questions = [
        question
        for operation in KINDS[address.kind].operations
        if (question := Question("user", subject.username, operation, address, generation)).policy
        and question.policy.requirement is not None
    ]
    return tuple(
        question.operation
        for question, facts in zip(questions, gather_facts(questions), strict=True)
        if not is_permitted(question, facts) and grants.permits(Denial(question, facts, []))
    )


def _similar_addresses(address: Address) -> tuple[Address, ...]:
    """Return the most similar registered addresses of the same kind and namespace. Reads at most MAX_NAMES_COMPARED."""
    siblings = Entity.objects.filter(kind=address.kind)
    if address.namespace and address.kind != "namespace":
        siblings = siblings.filter(namespace__key=address.namespace.key)
    keys = siblings.order_by("key").values_list("key", flat=True)[:MAX_NAMES_COMPARED]
    return tuple(Address(address.kind, key) for key in get_close_matches(address.key, keys, n=3, cutoff=0.8))


def _held_privileges(subject: User, address: Address) -> Mapping[Privilege, str]:
    generation = active_generation().name
    (facts, *_) = gather_facts(
        [Question("user", subject.username, privilege, address, generation) for privilege in ANY],
        explained=True,
    )
    return dict(facts.privileges_on(address))


def _colleagues(subject: User, proposal: Proposal) -> ColleagueAccess:
    """Count the colleagues, and those who hold the grants of the proposal. Runs two queries."""
    in_force = Belonging.objects.filter(in_force_condition())
    groups = in_force.filter(user=subject).values("group")
    names = list(
        User.objects.active_principals()
        .filter(pk__in=in_force.filter(group__in=groups).values("user"))
        .exclude(pk=subject.pk)
        .order_by("username")
        .values_list("username", flat=True)[:MAX_COLLEAGUES]
    )
    grants = proposal.grants[:MAX_GRANTS_COMPARED]
    if not names or not grants:
        return ColleagueAccess(0, len(names))
    generation = active_generation().name
    questions = [
        Question("user", name, privilege, address, generation)
        for name in names
        for address, privilege in grants
    ]
    lacking = {
        question.subject
        for question, facts in zip(questions, gather_facts(questions), strict=True)
        if not is_permitted(question, facts)
    }
    return ColleagueAccess(len(names) - len(lacking), len(names))


def _nearby(subject: User, entity: Entity | None) -> tuple[tuple[Address, ...], int]:
    """Return the first live entities in the namespace of the entity on which the subject holds a privilege,
    and their number.
    """
    namespace_id = (entity.namespace_id or entity.pk) if entity else None
    tables = grant_tables_of_principal(subject)
    if namespace_id is None or not tables or entity.kind == "instance":
        return (), 0
    rows = (
        Entity.objects.filter(
            fold(has(*ANY), EntityConditions(tables, list(KINDS))),
            namespace_id=namespace_id,
            state=State.LIVE,
        )
        .exclude(pk=entity.pk)
        .order_by("kind", "key")
    )
    return tuple(Address(*row) for row in rows.values_list("kind", "key")[:MAX_ENTITIES]), rows.count()
