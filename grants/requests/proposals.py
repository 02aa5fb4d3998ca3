"""Propose the grants that would permit a part of a request, the narrowest first."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from django.contrib.auth.models import Group

from entities.address import Address, parse_address
from entities.frozen import frozen
from grants.active_generation import active_generation
from grants.change_set import Grant, Join
from grants.effects.effect import Effect, effect_of
from grants.effects.purposes import AnswerQuestions
from grants.errors import EffectTooLarge, RequestError
from grants.evaluation.engine import check_summary
from grants.evaluation.missing_summary import summary_facts
from grants.models import AccessRequestPart, User
from grants.plans.sources.answer import MAX_GRANTS_TO_COMPARE, narrowness, shortest_ways
from grants.policies.explain import MissingGrant
from grants.policies.policy import Generation
from grants.policies.principals import group_text
from grants.policies.question import Question, question_from_json
from grants.querysets import memberships
from grants.requests.gaps import first_denials, last_moment
from grants.validity import Validity, at_time, in_force_condition

MAX_GRANTS_PER_PART = 1_000
NO_LIMITS = Validity()
_TOO_MANY = (
    "{0} grants are missing to {1}, which is too many for a request: an administrator can plan a bulk change"
)


@frozen
class Proposal:
    """A way to permit a part: grants, or the membership in a group. If it has neither, nothing is missing any
    more.

    beyond: how many other permissions it gives; None if this was not computed. attached: how many of them come with the
    grants.
    extends: the end of the present access, if the proposal only extends it; otherwise None.
    """

    grants: tuple[MissingGrant, ...] = ()
    group: str = ""
    beyond: int | None = None
    attached: int = 0
    extends: datetime | None = None

    @property
    def id(self) -> str:
        """A short text that identifies the proposal in forms and APIs."""
        return hashlib.sha256(self.words.encode()).hexdigest()[:12]

    @property
    def words(self) -> str:
        if self.group:
            return f"membership in {group_text(self.group)}"
        return (
            " and ".join(f"{privilege} on {address}" for address, privilege in self.grants)
            or "nothing is missing any more"
        )

    @property
    def side_effects(self) -> int:
        """The permissions beyond the purpose that do not come with the grants, if `beyond` is known."""
        return (self.beyond or 0) - self.attached

    @property
    def is_empty(self) -> bool:
        return not self.grants and not self.group


def wanted_question(
    subject: str, address: Address, operation: str, context: dict, generation: Generation
) -> Question:
    """Return the question whether the user may do this.

    Raise QuestionError for malformed parameters in `context`.
    """
    return question_from_json(
        {
            "subject": {"type": "user", "id": subject},
            "action": {"name": operation},
            "resource": {"type": address.kind, "id": address.key},
            "context": {**context, "generation": generation.name},
        },
        active_generation=generation.name,
    )


def proposals_of(part: AccessRequestPart, subject: User, until: datetime | None = None) -> list[Proposal]:
    """Return the ways to permit a part in the active generation, the narrowest first; an empty list if no
    grants permit it.

    until: the requested end. If the part is permitted now but not all the time until then, return the ways to
    extend it. Alternatives are compared by the other permissions that they give, if they are short. Raise
    RequestError if more than MAX_GRANTS_PER_PART grants are missing.
    """
    if part.group_name:
        return _membership_proposals(part.group_name, subject, until)
    generation = active_generation()
    proposals = _current_proposals(part, subject, generation)
    if proposals == [Proposal()]:
        question = wanted_question(subject.username, part.address, part.operation, part.context, generation)
        (denial,) = first_denials([question], subject, until)
        if denial is not None:
            with at_time(denial):
                later = _current_proposals(part, subject, generation)
            return [replace(proposal, extends=denial) for proposal in later]
    return proposals


def _current_proposals(part: AccessRequestPart, subject: User, generation: Generation) -> list[Proposal]:
    """Return the ways to permit a part at the time of the question."""
    question = wanted_question(subject.username, part.address, part.operation, part.context, generation)
    if question.policy is None or question.policy.requirement is None:
        return []
    summary = check_summary(question, max_listed=1)
    if summary.is_permitted:
        return [Proposal()]
    total = len(summary.missing_grants or ()) + summary.unlisted_count
    if total > MAX_GRANTS_PER_PART:
        raise RequestError(_TOO_MANY.format(f"{total:,}", part.title))
    # of an account that is not a principal yet too, because its first grant makes it one
    facts = summary_facts(question, MAX_GRANTS_PER_PART + 1)
    ways = shortest_ways(question, facts)
    if any(len(grants) > MAX_GRANTS_PER_PART for grants in ways):
        raise RequestError(_TOO_MANY.format(f"more than {MAX_GRANTS_PER_PART:,}", part.title))
    is_compared = all(len(grants) <= MAX_GRANTS_TO_COMPARE for grants in ways)
    proposals = [
        _with_effect(Proposal(grants), subject, part, generation) if is_compared else Proposal(grants)
        for grants in ways
    ]
    return sorted(proposals, key=narrowness)


def _membership_proposals(group: str, subject: User, until: datetime | None) -> list[Proposal]:
    """Return the membership unless the subject has it now and until then.

    It has one period, so there is no gap in between.
    """
    if not Group.objects.filter(name=group).exists():
        return []
    is_member = (
        memberships()
        .filter(
            in_force_condition(), in_force_condition(at=last_moment(until)), user=subject, group__name=group
        )
        .exists()
    )
    return [Proposal()] if is_member else [Proposal(group=group)]


def _with_effect(
    proposal: Proposal, subject: User, part: AccessRequestPart, generation: Generation
) -> Proposal:
    """Return the proposal with the number of other permissions that it gives, if the effect is not too large."""
    effect = effect_of_proposals(subject, [(part, proposal)], generation)
    if effect is None:
        return proposal
    return replace(proposal, beyond=effect.tally.gained_beyond, attached=effect.attached_gains)


def effect_of_proposals(
    subject: User, chosen: Sequence[tuple[AccessRequestPart, Proposal]], generation: Generation | None = None
) -> Effect | None:
    """Return the effect of the chosen proposals together; None if it is too large to be computed."""
    try:
        return effect_of(
            changes_of(subject, [proposal for _, proposal in chosen]),
            generation or active_generation(),
            purpose_of(subject.username, wanted_pairs(part for part, _ in chosen)),
        )
    except EffectTooLarge:
        return None


def changes_of(
    subject: User, proposals: Iterable[Proposal], validity: Validity = NO_LIMITS
) -> list[Grant | Join]:
    """Return the changes of proposals, each once. validity: the period of the access."""
    grants = {grant: None for proposal in proposals for grant in proposal.grants}
    groups = {proposal.group: None for proposal in proposals if proposal.group}
    return [
        *(Grant(str(subject), *grant, validity) for grant in grants),
        *(Join(subject.username, group, validity) for group in groups),
    ]


def wanted_pairs(parts: Iterable[AccessRequestPart]) -> list[tuple[str, str]]:
    """Return the operation and the address of each part that has them."""
    return [(part.operation, str(part.address)) for part in parts if part.kind]


def purpose_of(subject: str, wanted: Iterable[tuple[str, str]]) -> AnswerQuestions:
    return AnswerQuestions(
        subject, frozenset((parse_address(address), operation) for operation, address in wanted)
    )
