"""What an approver sees about a part: the proposals, the current access of the requester, and what colleagues
hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import ANY, KINDS, Privilege
from grants.active_generation import active_generation
from grants.errors import RequestError
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.entity_filters import EntityConditions
from grants.evaluation.facts import gather_facts
from grants.models import AccessRequest, AccessRequestPart, Membership, User
from grants.policies.decide import is_permitted
from grants.policies.explain import NOT_REGISTERED
from grants.policies.grammar import fold, has
from grants.policies.question import Question
from grants.requests.approvers import ApproverScope
from grants.requests.proposals import Proposal, proposals_of
from grants.validity import in_force_condition

MAX_COLLEAGUES, MAX_GRANTS_COMPARED = 200, 10
MAX_ENTITIES = 5


@dataclass(frozen=True, slots=True)
class ColleagueAccess:
    """How many colleagues hold the grants of a proposal. Colleagues are active users who share a group with
    the requester.

    holders: those who hold the first MAX_GRANTS_COMPARED grants. total: the number of colleagues, at most
    MAX_COLLEAGUES.
    """

    holders: int
    total: int


@dataclass(frozen=True, slots=True)
class PartBackground:
    """A part as its approvers see it.

    proposals: the narrowest first. Proposals with a hidden effect are last. fault: why there are none.
    visible_effects: the proposals with an effect that the approver may see.
    state: the state of the address, or `not registered`; empty for a membership.
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
        fault = f"group:{part.group_name} does not exist" if part.group_name else "no grant permits this"
    visible = [proposal for proposal in proposals if scope.can_see_effect(proposal.grants)]
    shown = (*visible, *(replace(proposal, beyond=None) for proposal in proposals if proposal not in visible))
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
    )


def can_see_effect(chosen: Iterable[tuple[PartBackground, Proposal]]) -> bool:
    """Return whether the approver may see the effect of the chosen proposals together."""
    return all(proposal in background.visible_effects for background, proposal in chosen)


def _held_privileges(subject: User, address: Address) -> Mapping[Privilege, str]:
    generation = active_generation().name
    (facts, *_) = gather_facts(
        [Question("user", subject.username, privilege, address, generation) for privilege in ANY],
        explained=True,
    )
    return dict(facts.privileges_on(address))


def _colleagues(subject: User, proposal: Proposal) -> ColleagueAccess:
    """Count the colleagues, and those who hold the grants of the proposal. Runs two queries."""
    in_force = Membership.objects.filter(in_force_condition())
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
