"""A decision as it is shown: lists cut to what one reads, and nothing that this account may not see."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from authzconsole.web.places import Place, address_url, place_of
from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from grants.active import active_generation
from grants.listing import visible_to
from grants.models import User
from grants.policies.decide import Held
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
    """One attempt of the tree; missing_more: how many gaps are left out."""

    met: bool
    words: str
    grants: tuple[Held, ...]
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
        decision = _withheld(decision, user)
    gaps = decision.missing or ()
    return Answer(
        decision, [_node(attempt) for attempt in decision.attempts], len(decision.attempts) > 1,
        [shown_gap(gap, decision.question.principal, user) for gap in gaps[:MOST_GAPS]], max(0, len(gaps) - MOST_GAPS),
    )


def _node(attempt: Attempt) -> Node:
    # of all other leaves the words say already what is missing
    gaps = attempt.missing if attempt.requirement == "all live" else ()
    return Node(attempt.met, attempt.words, attempt.grants, gaps[:MOST_GAPS_OF_A_NODE],
                max(0, len(gaps) - MOST_GAPS_OF_A_NODE), [_node(part) for part in attempt.parts])


def shown_gap(gap: Gap, principal: str, user: User) -> ShownGap:
    address, privilege = gap
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url('grant', address)}?{query}" if user.may_administer else ""
    return ShownGap(address, place_of(address, linked=user.may_see_all), str(privilege), url)


def _withheld(decision: Decision, user: User) -> Decision:
    """The decision without the addresses, and their number, that this account may not see.

    What the question itself names is known to who asks; what a rule over all live entities looks at may not be.
    """
    looked_at = {address for attempt in decision.attempts for address in _inside(attempt)}
    hidden = looked_at - _visible(looked_at, user)
    if not hidden:
        return decision
    sentence = f"Denied: {decision.question.principal} lacks privileges on entities that your account does not see."
    return replace(decision, sentence=sentence, missing=None,
                   attempts=tuple(_attempt_withheld(attempt, hidden) for attempt in decision.attempts))


def _inside(attempt: Attempt):
    if attempt.requirement == "all live":
        yield from (address for address, _ in attempt.missing)
    for part in attempt.parts:
        yield from _inside(part)


def _visible(addresses: set[Address], user: User) -> set[Address]:
    rows = entities_at(addresses).values()
    shown = Entity.objects.filter(visible_to(user, active_generation()), pk__in=[row.pk for row in rows])
    return {row.address for row in shown}


def _attempt_withheld(attempt: Attempt, hidden: set[Address]) -> Attempt:
    parts = tuple(_attempt_withheld(part, hidden) for part in attempt.parts)
    if attempt.requirement != "all live" or not any(address in hidden for address, _ in attempt.missing):
        return replace(attempt, parts=parts)
    seen = tuple(gap for gap in attempt.missing if gap[0] not in hidden)
    words = f"{attempt.wanted[0]} on live entities in {attempt.where}, some of which your account does not see"
    return replace(attempt, words=words, missing=seen, total=0, parts=parts)
