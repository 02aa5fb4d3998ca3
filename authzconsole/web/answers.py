"""A decision as it is shown: lists cut to what one reads, and nothing that this account may not see."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from authzconsole.web.places import Place, address_url, place_of
from entities.address import Address
from grants.lacking import lacking_seen
from grants.models import User
from grants.policies.decide import Held
from grants.policies.disclosure import ALL_LIVE, withholding
from grants.policies.explain import Attempt, Decision, Gap
from grants.seen import Seen

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


def answer_of(decision: Decision, user: User, seen: Callable[[], Seen]) -> Answer:
    """seen: what the user sees in the target. At most six queries beyond it, and none but of a rule over all live entities for an
    account that does not see everything."""
    if not user.may_see_all:
        question = decision.question
        decision = withholding(decision, lambda attempt: lacking_seen(question, attempt, seen(), MOST_GAPS_OF_A_NODE))
    gaps = decision.missing or ()
    return Answer(
        decision, [_node(attempt) for attempt in decision.attempts], len(decision.attempts) > 1,
        [shown_gap(gap, decision.question.principal, user) for gap in gaps[:MOST_GAPS]],
        max(0, len(gaps) - MOST_GAPS) + decision.missing_more,
    )


def _node(attempt: Attempt) -> Node:
    # of all other leaves the words say already what is missing
    gaps = attempt.missing if attempt.requirement == ALL_LIVE else ()
    return Node(attempt.met, attempt.words, [_evidence(held, attempt) for held in attempt.grants], gaps[:MOST_GAPS_OF_A_NODE],
                max(0, len(gaps) - MOST_GAPS_OF_A_NODE) + attempt.missing_more, [_node(part) for part in attempt.parts])


def _evidence(held: Held, attempt: Attempt) -> str:
    place = "" if held.entity == attempt.where else f" on {held.entity}"
    return f"{held.privilege}{place} held by {held.principal}"


def shown_gap(gap: Gap, principal: str, user: User) -> ShownGap:
    address, privilege = gap
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url('grant', address)}?{query}" if user.may_administer else ""
    return ShownGap(address, place_of(address, linked=user.may_see_all), str(privilege), url)
