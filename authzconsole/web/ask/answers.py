"""A decision as it is shown: lists cut to what one reads, and nothing that this account may not see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from authzconsole.web.policies.page import row_url
from authzconsole.web.shared.links import AddressLink, address_link_to, address_url, principal_url
from entities.address import Address
from grants.evaluation.missing_summary import visible_missing_entities
from grants.evaluation.visibility import Visibility
from grants.models import User
from grants.policies.decide import HeldGrant, MissingEntities
from grants.policies.disclosure import ALL_LIVE, redact
from grants.policies.explain import Attempt, Decision, MissingGrant

MOST_GAPS = 12
MOST_GAPS_OF_A_NODE = 3

JOINTS = {"all": "ALL OF", "any": "ANY OF"}


@dataclass(frozen=True, slots=True)
class MissingGrantRow:
    """url: where an administrator grants what is missing; empty for everybody else."""

    address: Address
    address_link: AddressLink
    privilege: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A grant that met a requirement. place: where it lies, if not where the requirement looks. url: of its holder, where this
    account may look there."""

    privilege: str
    address_link: AddressLink | None
    principal: str
    url: str


@dataclass(frozen=True, slots=True)
class Node:
    """One attempt of the tree.

    joint: ALL OF or ANY OF, where its parts decide. before, place, after: the wish in words, with the address that it looks at
    between them; place is None where it looks at none. missing_more: how many gaps are left out.
    """

    met: bool
    joint: str
    before: str
    address_link: AddressLink | None
    after: str
    grants: list[Evidence]
    missing: list[AddressLink]
    missing_more: int
    parts: list["Node"]


@dataclass(frozen=True, slots=True)
class Answer:
    """tree: None where there was nothing to weigh. rule_url: the row of the rule; empty for a bare privilege, which has none."""

    decision: Decision
    tree: Node | None
    missing: list[MissingGrantRow]
    missing_more: int
    rule_url: str

    @property
    def missing_total(self) -> int:
        return len(self.missing) + self.missing_more


def answer_of(decision: Decision, user: User, seen: Callable[[], Visibility]) -> Answer:
    """As `answers_of` one decision."""
    return answers_of([decision], user, seen)[0]


def answers_of(decisions: Sequence[Decision], user: User, seen: Callable[[], Visibility]) -> list[Answer]:
    """Answers to questions that differ in their generation alone, in order.

    seen: what the user sees in the target. At most six queries beyond it, and none but of a rule over all live entities for an
    account that does not see everything; what every generation looks at in the same place is looked at once.
    """
    if not user.can_see_all:
        looked_at: dict[tuple, MissingEntities | None] = {}

        def told(attempt: Attempt) -> MissingEntities | None:
            wanted = attempt.where, attempt.wanted, attempt.kind
            if wanted not in looked_at:
                looked_at[wanted] = visible_missing_entities(decisions[0].question, attempt, seen(), MOST_GAPS_OF_A_NODE)
            return looked_at[wanted]

        decisions = [redact(decision, told) for decision in decisions]
    return [_answer(decision, user) for decision in decisions]


def _answer(decision: Decision, user: User) -> Answer:
    gaps, tried = decision.missing or (), decision.attempts
    root = Attempt("any", decision.allowed, "one of these", parts=tried) if len(tried) > 1 else next(iter(tried), None)
    return Answer(
        decision, _node(root, user) if root else None,
        [missing_grant_of(gap, decision.question.principal, user) for gap in gaps[:MOST_GAPS]],
        max(0, len(gaps) - MOST_GAPS) + decision.unlisted_count, row_url(decision.question),
    )


def _node(attempt: Attempt, user: User) -> Node:
    # of all other leaves the words say already what is missing
    gaps = attempt.missing if attempt.requirement == ALL_LIVE else ()
    before, where, after = attempt.words.partition(str(attempt.where)) if attempt.where else (attempt.words, "", "")
    return Node(
        attempt.met, JOINTS.get(attempt.requirement, ""), before,
        address_link_to(attempt.where, linked=user.can_see_all) if where else None, after,
        [_evidence(held, attempt, user) for held in attempt.grants],
        [address_link_to(address, linked=user.can_see_all) for address, _ in gaps[:MOST_GAPS_OF_A_NODE]],
        max(0, len(gaps) - MOST_GAPS_OF_A_NODE) + attempt.unlisted_count, [_node(part, user) for part in attempt.parts],
    )


def _evidence(held: HeldGrant, attempt: Attempt, user: User) -> Evidence:
    place = None if held.entity == attempt.where else address_link_to(held.entity, linked=user.can_see_all)
    url = principal_url("person", held.principal) if user.can_see_all else ""
    return Evidence(str(held.privilege), place, held.principal, url)


def missing_grant_of(gap: MissingGrant, principal: str, user: User) -> MissingGrantRow:
    address, privilege = gap
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url('grant', address)}?{query}" if user.can_administer else ""
    return MissingGrantRow(address, address_link_to(address, linked=user.can_see_all), str(privilege), url)
