"""A decision as it is shown: lists cut to what one reads, and nothing that this account may not see."""

from dataclasses import dataclass
from urllib.parse import urlencode

from authzconsole.web.places import Place, address_url, place_of
from entities.address import Address
from entities.selectors import entity_at, live_below
from grants.active import active_generation
from grants.listing import visible_to
from grants.models import User
from grants.policies.decide import Held
from grants.policies.disclosure import addresses_ranged_over, withholding
from grants.policies.explain import Attempt, Decision, Gap

MOST_GAPS = 12
MOST_GAPS_OF_A_NODE = 3


@dataclass(frozen=True, slots=True)
class ShownGap:
    """url: where an administrator grants what is missing; empty for everybody else."""

    address: Address
    place: Place
    privilege: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One attempt of the tree. evidence: what met it, in words. missing_more: how many gaps are left out."""

    met: bool
    words: str
    evidence: list[str]
    missing: tuple[Gap, ...]
    missing_more: int
    parts: list["Node"]


@dataclass(frozen=True, slots=True)
class Answer:
    decision: Decision
    tree: list[Node]
    is_choice: bool
    missing: list[ShownGap]
    missing_more: int


def answer_of(decision: Decision, user: User) -> Answer:
    if not user.may_see_all:
        decision = withholding(decision, _hidden(decision, user))
    gaps = decision.missing or ()
    return Answer(
        decision, [_node(attempt) for attempt in decision.attempts], len(decision.attempts) > 1,
        [shown_gap(gap, decision.question.principal, user) for gap in gaps[:MOST_GAPS]], max(0, len(gaps) - MOST_GAPS),
    )


def _node(attempt: Attempt) -> Node:
    # of all other leaves the words say already what is missing
    gaps = attempt.missing if attempt.requirement == "all live" else ()
    return Node(attempt.met, attempt.words, [_evidence(held, attempt) for held in attempt.grants], gaps[:MOST_GAPS_OF_A_NODE],
                max(0, len(gaps) - MOST_GAPS_OF_A_NODE), [_node(part) for part in attempt.parts])


def _evidence(held: Held, attempt: Attempt) -> str:
    place = "" if held.entity == attempt.where else f" on {held.entity}"
    return f"{held.privilege}{place} held by {held.principal}"


def shown_gap(gap: Gap, principal: str, user: User) -> ShownGap:
    address, privilege = gap
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url('grant', address)}?{query}" if user.may_administer else ""
    return ShownGap(address, place_of(address, linked=user.may_see_all), str(privilege), url)


def _hidden(decision: Decision, user: User) -> frozenset[Address]:
    """What a rule over all live entities looks at and the account may not see. Two queries, however many there are."""
    kinds = {address.kind for address in addresses_ranged_over(decision)}
    if not kinds:
        return frozenset()
    inside = live_below(entity_at(decision.question.target)).filter(kind__in=kinds)
    unseen = inside.exclude(visible_to(user, active_generation())).order_by()
    return frozenset(Address(kind, key) for kind, key in unseen.values_list("kind", "key"))
