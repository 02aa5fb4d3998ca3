"""A decision as it is shown: lists cut to what one reads, and nothing that this account may not see."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from authzconsole.web.places import Place, address_url, place_of
from entities.address import Address
from entities.selectors import entity_at, live_below
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
        decision = _withheld(decision, user)
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


def _withheld(decision: Decision, user: User) -> Decision:
    """The decision without the addresses, and their number, that this account may not see.

    What the question itself names is known to who asks; what a rule over all live entities looks at may not be.
    """
    hiding = {attempt for attempt in _over_all_live(decision.attempts) if _hides(attempt, user)}
    if not hiding:
        return decision
    sentence = f"Denied: {decision.question.principal} lacks privileges on entities that your account does not see."
    return replace(decision, sentence=sentence, missing=None,
                   attempts=tuple(_without(attempt, hiding) for attempt in decision.attempts))


def _over_all_live(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    for attempt in attempts:
        if attempt.requirement == "all live" and attempt.missing:
            yield attempt
        yield from _over_all_live(attempt.parts)


def _hides(attempt: Attempt, user: User) -> bool:
    """Whether some of what it looks at is not shown to the account. Two queries, however many entities there are."""
    kinds = {address.kind for address, _ in attempt.missing}
    inside = live_below(entity_at(attempt.where)).filter(kind__in=kinds)
    return inside.exclude(visible_to(user, active_generation())).exists()


def _without(attempt: Attempt, hiding: set[Attempt]) -> Attempt:
    if attempt in hiding:
        words = f"{attempt.wanted[0]} on live entities in {attempt.where}, some of which your account does not see"
        return replace(attempt, words=words, missing=(), total=0)
    return replace(attempt, parts=tuple(_without(part, hiding) for part in attempt.parts))
