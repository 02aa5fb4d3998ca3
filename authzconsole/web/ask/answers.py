"""Prepare decisions for display, in full and in one line: shorten long lists and leave out entities that the account may not see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from authzconsole.web.policies.page import row_url
from authzconsole.web.shared.links import AddressLink, address_link_to, address_url, principal_url
from entities.address import Address
from entities.vocabulary import KINDS
from grants.evaluation.engine import check_many, requires_all_live
from grants.evaluation.facts import gather_facts
from grants.evaluation.missing_summary import visible_entities_without_privilege
from grants.evaluation.visibility import Visibility
from grants.models import User
from grants.policies.decide import EntitiesWithoutPrivilege, HeldGrant, is_permitted
from grants.policies.explain import ALL_LIVE, Attempt, Decision, MissingGrant, early_denial_reason, redact
from grants.policies.policy import Source
from grants.policies.question import Question

MAX_MISSING_GRANTS = 12
MAX_MISSING_PER_NODE = 3

OPERATORS = {"all": "ALL OF", "any": "ANY OF"}


@dataclass(frozen=True, slots=True)
class MissingGrantRow:
    """A missing grant. url: the form where an administrator grants it; empty for other accounts."""

    address: Address
    address_link: AddressLink
    privilege: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class HeldGrantRow:
    """A grant that met a requirement.

    address_link: the entity of the grant, if it is not the entity that the requirement names.
    url: the page of the holder; empty if the account may not open it. valid_until: when the grant ends; None
    if it does not.
    """

    privilege: str
    address_link: AddressLink | None
    principal: str
    url: str
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RequirementNode:
    """One node of the requirement tree.

    operator: ALL OF or ANY OF for a node with parts; otherwise empty.
    before, address_link, after: the text of the requirement, split around the address that it names.
    address_link is None if it names no address.
    missing: the first entities without the required privilege. missing_more: the number of further ones.
    """

    is_met: bool
    operator: str
    before: str
    address_link: AddressLink | None
    after: str
    grants: list[HeldGrantRow]
    missing: list[AddressLink]
    missing_more: int
    parts: list["RequirementNode"]


@dataclass(frozen=True, slots=True)
class ExplainedAnswer:
    """A decision for display.

    tree: None if the question was denied before any requirement was tested.
    policy_url: the row of the policy in the catalogue; empty for a plain privilege, which has no policy.
    """

    decision: Decision
    tree: RequirementNode | None
    missing: list[MissingGrantRow]
    missing_more: int
    policy_url: str

    @property
    def missing_total(self) -> int:
        return len(self.missing) + self.missing_more


def answer_for_display(
    decision: Decision, user: User, target_visibility: Callable[[], Visibility]
) -> ExplainedAnswer:
    """Return one answer; see `answers_for_display`."""
    return answers_for_display([decision], user, target_visibility)[0]


def answers_for_display(
    decisions: Sequence[Decision], user: User, target_visibility: Callable[[], Visibility]
) -> list[ExplainedAnswer]:
    """Return the answers to questions that differ only in their generation, in order.

    target_visibility: returns the visibility of the user inside the target. It is called only if the user
    does not see all entities and a requirement ranges over all live entities. Runs at most six further
    queries: a requirement that several generations share is looked up once.
    """
    if not user.can_see_all:
        missing_by_requirement: dict[tuple, EntitiesWithoutPrivilege | None] = {}

        def visible_entities(attempt: Attempt) -> EntitiesWithoutPrivilege | None:
            key = attempt.address, attempt.privileges, attempt.kind
            if key not in missing_by_requirement:
                missing_by_requirement[key] = visible_entities_without_privilege(
                    decisions[0].question, attempt, target_visibility(), MAX_MISSING_PER_NODE
                )
            return missing_by_requirement[key]

        decisions = [redact(decision, visible_entities) for decision in decisions]
    return [_answer(decision, user) for decision in decisions]


def _answer(decision: Decision, user: User) -> ExplainedAnswer:
    missing, attempts = decision.missing_grants or (), decision.attempts
    root = next(iter(attempts), None)
    if len(attempts) > 1:
        root = Attempt("any", decision.is_permitted, "one of these", parts=attempts)
    return ExplainedAnswer(
        decision,
        _requirement_node(root, user) if root else None,
        [
            missing_grant_row(grant, decision.question.principal, user)
            for grant in missing[:MAX_MISSING_GRANTS]
        ],
        max(0, len(missing) - MAX_MISSING_GRANTS) + decision.unlisted_count,
        row_url(decision.question),
    )


def _requirement_node(attempt: Attempt, user: User) -> RequirementNode:
    # the text of every other leaf already says what is missing
    missing = attempt.missing_grants if attempt.requirement == ALL_LIVE else ()
    before, address, after = (
        attempt.words.partition(str(attempt.address)) if attempt.address else (attempt.words, "", "")
    )
    return RequirementNode(
        attempt.is_met,
        OPERATORS.get(attempt.requirement, ""),
        before,
        address_link_to(attempt.address, is_linked=user.can_see_all) if address else None,
        after,
        [_evidence(held, attempt, user) for held in attempt.grants],
        [address_link_to(entity, is_linked=user.can_see_all) for entity, _ in missing[:MAX_MISSING_PER_NODE]],
        max(0, len(missing) - MAX_MISSING_PER_NODE) + attempt.unlisted_count,
        [_requirement_node(part, user) for part in attempt.parts],
    )


def _evidence(held: HeldGrant, attempt: Attempt, user: User) -> HeldGrantRow:
    is_elsewhere = held.entity != attempt.address
    address_link = address_link_to(held.entity, is_linked=user.can_see_all) if is_elsewhere else None
    url = principal_url("person", held.principal) if user.can_see_all else ""
    return HeldGrantRow(str(held.privilege), address_link, held.principal, url, held.valid_until)


def missing_grant_row(missing: MissingGrant, principal: str, user: User) -> MissingGrantRow:
    address, privilege = missing
    query = urlencode({"principal": principal, "privilege": privilege}, safe=":")
    url = f"{address_url('grant', address)}?{query}" if user.can_administer else ""
    return MissingGrantRow(address, address_link_to(address, is_linked=user.can_see_all), str(privilege), url)


ALL_LIVE_SENTENCES = {
    True: "Allowed: the required privilege is held on every live entity there.",
    False: "Denied: the required privilege is not held on every live entity there.",
}


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """A decision with its sentence. url: the page with the full answer. policy_url: see `ExplainedAnswer`."""

    name: str
    is_permitted: bool
    sentence: str
    source: Source | None
    url: str
    policy_url: str = ""
    is_current: bool = False


def answer_summaries(
    named_questions: Sequence[tuple[str, Question, str]], *, current: str = ""
) -> list[AnswerSummary]:
    """Return one summary for each (name, question, URL), in order. Runs at most two queries.

    The sentence about a requirement over all live entities does not list the missing ones: there may be as
    many as the tenant has entities, and the account may not see them.
    """
    decisions = iter(
        check_many([question for _, question, _ in named_questions if not requires_all_live(question)])
    )
    all_live_facts = iter(
        gather_facts([question for _, question, _ in named_questions if requires_all_live(question)])
    )
    summaries = []
    for name, question, url in named_questions:
        if requires_all_live(question):
            facts = next(all_live_facts)
            permitted = is_permitted(question, facts)
            sentence = (
                ALL_LIVE_SENTENCES[permitted]
                if facts.is_subject_known
                else f"Denied: {early_denial_reason(question, facts)}."
            )
        else:
            decision = next(decisions)
            permitted, sentence = decision.is_permitted, decision.sentence
        source = question.policy.source if question.policy else None
        summaries.append(
            AnswerSummary(name, permitted, sentence, source, url, row_url(question), name == current)
        )
    return summaries


def is_operation(kind: str, operation: str) -> bool:
    """Return whether the text is an operation of the kind.

    Otherwise it is a privilege, which all generations decide alike.
    """
    return operation in KINDS[kind].operations
