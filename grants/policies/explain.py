"""Explain a decision: a sentence, the tree of attempts, the source, and the smallest set of missing grants.

INVARIANT: a decision is permitted if and only if its tree is met. The tree is built from the same facts that
`decide` reads.

`redact` removes what a reader may not see. The reader knows the addresses in the question and the grants of the
subject. A rule over all live entities of a container is different: the reader may see neither the addresses of these
entities nor their number.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain, product

from entities.address import Address, instance_address
from entities.frozen import frozen
from entities.vocabulary import ANY, KIND_ORDER, KINDS, Privilege, join_words, with_article
from grants.policies.decide import EntitiesWithoutPrivilege, Facts, HeldGrant
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.policy import Source
from grants.policies.question import Question
from grants.policies.times import format_time, time_in_words

MAX_NAMED = 3


@frozen
class InactiveGrant:
    """A grant that does not count at the time of the question, because it or its membership has not begun or
    has ended.

    principal: the holder, either the subject itself or one of its groups. valid_from, valid_until: when the
    grant and the membership both count; None means no limit. begins_later: False if it has ended.
    """

    principal: str
    entity: Address
    privilege: Privilege
    valid_from: datetime | None
    valid_until: datetime | None
    begins_later: bool

    @property
    def time(self) -> datetime:
        """When it begins or ended."""
        time = self.valid_from if self.begins_later else self.valid_until
        assert time is not None
        return time

    def words(self, subject: str) -> str:
        """Return the grant as text, such as `READ on dataset:sales.orders begins on 5 December 2026, 09:00
        UTC`.
        """
        through = "" if self.principal == subject else f" through {self.principal}"
        verb = "begins" if self.begins_later else "ended"
        return f"{self.privilege} on {self.entity}{through} {verb} on {time_in_words(self.time)}"

    def as_json(self) -> dict[str, str]:
        limits = {"valid_from": self.valid_from, "valid_until": self.valid_until}
        return {
            "principal": self.principal,
            "entity": str(self.entity),
            "privilege": str(self.privilege),
            **{name: format_time(time) for name, time in limits.items() if time is not None},
        }


def sentence_with_inactive(sentence: str, subject: str, grants: Iterable[InactiveGrant]) -> str:
    """Return the sentence of a denial with the first MAX_NAMED of these grants; unchanged without any."""
    words = [grant.words(subject) for grant in grants]
    more = [f"{len(words) - MAX_NAMED:,} more begin later or have ended"] if len(words) > MAX_NAMED else []
    return "; ".join([sentence.removesuffix("."), *words[:MAX_NAMED], *more]) + "." if words else sentence


MissingGrant = tuple[Address, Privilege]

NOT_REGISTERED = "not registered"
STATES_IN_WORDS = {
    "planned": "is only planned",
    "deleted": "was deleted",
    NOT_REGISTERED: "is not registered",
}


@frozen
class UnlistedGrants:
    """Missing grants for a rule over all live entities that are counted but not listed.

    kind: the kind of the entities; None for every kind.
    """

    privilege: Privilege
    kind: str | None
    count: int


# missing grants that together would meet an expression
GrantSet = frozenset[MissingGrant | UnlistedGrants]


@frozen
class Attempt:
    """An evaluated node of the requirement tree.

    requirement: `has`, `at or below`, `all live`, `always`, `all`, `any` or `given`.
    words: the requirement in one line.
    privileges: any one of these is enough. address: where they must be held.
    grants: the grants that met the node.
    missing_grants: the grants that would meet it; only one set if several sets of the same size would.
    unlisted_count: number of missing grants that are counted but not listed.
    checked_count, kind: only for `all live`: the number of live entities that were checked, and their kind
    (None for every kind).
    """

    requirement: str
    is_met: bool
    words: str
    privileges: tuple[Privilege, ...] = ()
    address: Address | None = None
    grants: tuple[HeldGrant, ...] = ()
    missing_grants: tuple[MissingGrant, ...] = ()
    parts: tuple["Attempt", ...] = ()
    checked_count: int = 0
    kind: str | None = None
    unlisted_count: int = 0


@frozen
class Decision:
    """A decision with its reasons.

    reason: why no requirement was evaluated (unknown subject, kind or operation, or no rule); empty
    otherwise.
    missing_grants: the smallest set of grants that would turn a denial into a permission; None for a
    permitted question, and if no grants would.
    unlisted_count: number of further grants of that set that are counted but not listed.
    state: `planned`, `deleted` or `not registered` if the target is not live and the reader may know it;
    empty otherwise.
    inactive_grants: grants of the subject that begin later or have ended; set only by
    `grants.evaluation.inactive_grants`.
    remarks: policies of a platform by which it may answer differently, in words; set only by `grants.evaluation.remarks`.
    """

    question: Question
    is_permitted: bool
    sentence: str
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()
    source: Source | None = None
    missing_grants: tuple[MissingGrant, ...] | None = None
    unlisted_count: int = 0
    state: str = ""
    inactive_grants: tuple[InactiveGrant, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def generation(self) -> str:
        return self.question.generation


def explain(question: Question, facts: Facts) -> Decision:
    """Return the decision on `question` with its reasons."""
    reason = early_denial_reason(question, facts)
    policy = question.policy
    if reason:
        return Decision(
            question, False, f"Denied: {reason}.", reason, source=policy.source if policy else None
        )
    assert policy is not None and policy.requirement is not None
    tree = try_expression(policy.requirement, question, facts)
    decision = Decision(
        question,
        tree.is_met,
        _sentence(question, tree),
        source=policy.source,
        attempts=tree.parts if tree.requirement == "any" else (tree,),
    )
    if tree.is_met:
        return decision
    missing_grants, unlisted_count = smallest_grant_set(policy.requirement, question, facts)
    return replace(decision, missing_grants=missing_grants, unlisted_count=unlisted_count)


def with_state(decision: Decision, state: str) -> Decision:
    """Return the same decision with the state of its target added to the sentence."""
    words = f"{decision.question.target} {STATES_IN_WORDS[state]}"
    return replace(decision, state=state, sentence=f"{decision.sentence.removesuffix('.')}; {words}.")


def early_denial_reason(question: Question, facts: Facts) -> str:
    """Return why `question` is denied without evaluating a requirement; an empty string if its requirement
    decides.
    """
    if question.unknown_reason:
        return question.unknown_reason
    if not facts.is_subject_known:
        prefix = f"{question.subject_type}:"
        # grants name principals with their type, but a question has the type apart
        hint = (
            f": the id of a subject is written without `{prefix}`"
            if question.subject.startswith(prefix)
            else ""
        )
        return f"{question.principal} is not a known, active principal{hint}"
    policy = question.policy
    assert policy is not None
    if policy.requirement is None:
        kind = with_article(KINDS[question.known_target.kind].title)
        reason = f"the `{question.generation}` generation has no rule for `{question.operation}` on {kind}"
        return f"{reason}; {policy.advice}" if policy.advice else reason
    return ""


def try_expression(expression: Expression, question: Question, facts: Facts) -> Attempt:
    """Evaluate every node of `expression` and return the tree."""
    return fold(expression, Attempts(question, facts))


@frozen
class Attempts(Algebra[Attempt]):
    """The tree of attempts, with all parts of each node."""

    question: Question
    facts: Facts

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Attempt:
        address = _known_address_at(self.question, scope)
        holders = self.facts.privileges_on(address)
        grants = tuple(
            HeldGrant.of(holders[privilege], address, privilege)
            for privilege in privileges
            if privilege in holders
        )
        return Attempt(
            "has",
            bool(grants),
            f"{privileges_in_words(privileges)} on {address}",
            privileges,
            address,
            grants,
            () if grants else ((address, privileges[0]),),
        )

    def has_at_or_below(self) -> Attempt:
        address = self.question.known_target
        grant = self.facts.grant_at_or_below(address)
        return Attempt(
            "at or below",
            grant is not None,
            f"any privilege on {address} or anything inside it",
            ANY,
            address,
            (grant,) if grant else (),
            () if grant else ((address, ANY[0]),),
        )

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Attempt:
        address = self.question.known_target
        missing = self.facts.entities_without_privilege(address, privilege, kind)
        entities = _live_entities_in_words(kind)
        words = (
            f"{privilege} on all {missing.checked_count:,} {entities} in {address}"
            if missing.checked_count
            else (f"{privilege} on all {entities} in {address}, of which there are none")
        )
        return Attempt(
            "all live",
            missing.is_empty,
            words,
            (privilege,),
            address,
            checked_count=missing.checked_count,
            kind=kind,
            missing_grants=tuple((entity, privilege) for entity in missing.addresses),
            unlisted_count=missing.unlisted_count,
        )

    def always(self) -> Attempt:
        return Attempt("always", True, "only an active principal")

    def all_of(self, parts: Iterable[Attempt]) -> Attempt:
        # a part that asks for nothing, because the question does not name its parameter, is not shown
        attempts = tuple(attempt for attempt in parts if attempt.requirement != "given")
        return Attempt("all", all(attempt.is_met for attempt in attempts), "all of these", parts=attempts)

    def any_of(self, parts: Iterable[Attempt]) -> Attempt:
        attempts = tuple(parts)
        return Attempt("any", any(attempt.is_met for attempt in attempts), "one of these", parts=attempts)

    def given(self, parameter: Parameter, then: Callable[[], Attempt]) -> Attempt:
        if self.question.has_parameter(parameter):
            return then()
        return Attempt("given", True, f"nothing, as the question names no {parameter}")


def _known_address_at(question: Question, scope: Scope) -> Address:
    """Return the address at `scope`.

    It exists, because `Given` guards the scopes that a question may not name.
    """
    address = question.address_at(scope)
    assert address is not None, scope
    return address


def smallest_grant_set(
    expression: Expression, question: Question, facts: Facts
) -> tuple[tuple[MissingGrant, ...] | None, int]:
    """Return the smallest set of grants that would meet `expression`, as (listed grants, number of unlisted
    grants).

    Of several smallest sets, return the first in the order of addresses. The listed grants are None if no set
    would meet it.
    """
    choices = []
    for grant_set in minimal_grant_sets(expression, question, facts):
        unlisted_count = sum(item.count for item in grant_set if isinstance(item, UnlistedGrants))
        listed = sorted((item for item in grant_set if not isinstance(item, UnlistedGrants)), key=grant_order)
        choices.append((tuple(listed), unlisted_count))
    return min(choices, key=_choice_order, default=(None, 0))


def minimal_grant_sets(expression: Expression, question: Question, facts: Facts) -> list[GrantSet]:
    """Return every minimal set of missing grants that would meet `expression`; [the empty set] if it is met
    already.

    Grants that the facts count but do not list appear as one `UnlistedGrants`. No grant is counted twice,
    because no rule checks all live entities twice (tests/grants/policies/test_catalogue.py).
    """
    return fold(expression, MissingGrantSets(question, facts))


@frozen
class MissingGrantSets(Algebra[list[GrantSet]]):
    """The minimal sets of missing grants; see `minimal_grant_sets`."""

    question: Question
    facts: Facts

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> list[GrantSet]:
        address = _known_address_at(self.question, scope)
        if not self.facts.privileges_on(address).keys().isdisjoint(privileges):
            return [frozenset()]
        # there is only one instance; nothing can be granted on another
        if address.kind == "instance" and address != instance_address():
            return []
        return [frozenset([(address, privilege)]) for privilege in privileges]

    def has_at_or_below(self) -> list[GrantSet]:
        target = self.question.known_target
        if self.facts.has_grant_at_or_below(target):
            return [frozenset()]
        return [frozenset([(target, privilege)]) for privilege in ANY]

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> list[GrantSet]:
        missing = self.facts.entities_without_privilege(self.question.known_target, privilege, kind)
        unlisted = [UnlistedGrants(privilege, kind, missing.unlisted_count)] if missing.unlisted_count else []
        return [frozenset([*((address, privilege) for address in missing.addresses), *unlisted])]

    def always(self) -> list[GrantSet]:
        return [frozenset()]

    def all_of(self, parts: Iterable[list[GrantSet]]) -> list[GrantSet]:
        return _without_supersets(GrantSet().union(*combination) for combination in product(*parts))

    def any_of(self, parts: Iterable[list[GrantSet]]) -> list[GrantSet]:
        return _without_supersets(chain.from_iterable(parts))

    def given(self, parameter: Parameter, then: Callable[[], list[GrantSet]]) -> list[GrantSet]:
        return then() if self.question.has_parameter(parameter) else [frozenset()]


def _without_supersets(grant_sets: Iterable[GrantSet]) -> list[GrantSet]:
    """Return only the sets that contain no other set."""
    minimal_sets: list[GrantSet] = []
    for grant_set in sorted(dict.fromkeys(grant_sets), key=len):
        if not any(smaller <= grant_set for smaller in minimal_sets):
            minimal_sets.append(grant_set)
    return minimal_sets


def _choice_order(choice: tuple[tuple[MissingGrant, ...], int]) -> tuple[int, list[tuple[int, str, int]]]:
    listed, unlisted_count = choice
    return len(listed) + unlisted_count, [grant_order(grant) for grant in listed]


def grant_order(grant: MissingGrant) -> tuple[int, str, int]:
    """Return the key by which lists of grants are sorted."""
    address, privilege = grant
    return KIND_ORDER[address.kind], address.key, ANY.index(privilege)


def _sentence(question: Question, tree: Attempt) -> str:
    if tree.is_met:
        return f"Permitted: {_met_words(question, tree)}."
    if tree.requirement == "any":
        unmet = _unmet_parts(tree)
        none_of = (
            f"neither {unmet[0]} nor {unmet[1]}" if len(unmet) == 2 else f"none of {join_words(unmet, 'or')}"
        )
        return f"Denied: {question.principal} holds {none_of}."
    return f"Denied: {question.principal} lacks {_unmet_words(tree)}."


def _met_words(question: Question, tree: Attempt) -> str:
    """Return the grants that met the tree as text; of alternatives, the first that is met."""
    if tree.requirement == "always":
        return f"`{question.operation}` requires only an active principal"
    attempts = list(_deciding_attempts(tree))
    grants = dict.fromkeys(grant for attempt in attempts for grant in attempt.grants[:1])
    clauses = [_grant_words(question, grant) for grant in grants]
    clauses += [attempt.words for attempt in attempts if attempt.requirement == "all live"]
    return f"{question.principal} holds {join_words(clauses)}"


def _deciding_attempts(tree: Attempt) -> Iterator[Attempt]:
    """Yield the leaves that decide a met tree: those in every part of an `all`, and in the first met part of
    an `any`.
    """
    if tree.requirement == "any":
        yield from _deciding_attempts(next(part for part in tree.parts if part.is_met))
    elif tree.requirement == "all":
        for part in tree.parts:
            yield from _deciding_attempts(part)
    else:
        yield tree


def _grant_words(question: Question, grant: HeldGrant) -> str:
    through = "" if grant.principal == question.principal else f" through {grant.principal}"
    until = f" until {time_in_words(grant.valid_until)}" if grant.valid_until else ""
    by = f" by the pattern `{grant.pattern}`" if grant.pattern else ""
    return f"{grant.privilege} on {grant.entity}{by}{through}{until}"


def _unmet_words(tree: Attempt) -> str:
    match tree.requirement:
        case "all":
            return join_words(_unmet_parts(tree))
        case "any":
            return f"one of {join_words(_unmet_parts(tree), 'or')}"
        case "all live":
            (address, privilege), other_count = (
                tree.missing_grants[0],
                len(tree.missing_grants) - 1 + tree.unlisted_count,
            )
            if not other_count:
                return f"{privilege} on {address}"
            return (
                f"{privilege} on {other_count + 1:,} of the {tree.checked_count:,} {_live_entities_in_words(tree.kind)} "
                f"in {tree.address} ({address} and {other_count:,} more)"
            )
        case _:
            return tree.words


def _unmet_parts(tree: Attempt) -> list[str]:
    return list(dict.fromkeys(_unmet_words(part) for part in tree.parts if not part.is_met))


def _live_entities_in_words(kind: str | None) -> str:
    """Return the entities that a rule checks, such as `live streams`; `live entities` for every kind."""
    return f"live {KINDS[kind].plural}" if kind else "live entities"


def privileges_in_words(privileges: tuple[Privilege, ...]) -> str:
    """Return the privileges as alternatives, such as `READ, WRITE or ADMIN`; `any privilege` for all
    privileges.
    """
    return (
        "any privilege"
        if privileges == ANY
        else join_words([str(privilege) for privilege in privileges], "or")
    )


ALL_LIVE = "all live"
INCOMPLETE_REMARK = (
    "The platform has too many policies about this: not all of them were compared with the answer."
)
REDACTED_REMARK = (
    "The platform has a policy about this that the console does not evaluate, so it may answer differently."
)

# Takes an attempt over all live entities. Returns the entities without the privilege that the reader may see;
# None if the reader may see all of them.
VisibleEntities = Callable[[Attempt], EntitiesWithoutPrivilege | None]


def redact(decision: Decision, visible_entities: VisibleEntities) -> Decision:
    """Return the decision without the addresses that the reader may not see, and without their number.

    If something is hidden, the sentence of a denial is replaced. Remarks name policies, addresses and principals, so one
    without names takes their place, and only if the subject holds what they are about.
    """
    is_known = decision.is_permitted and not any(map(_ranges_over_entities, decision.attempts))
    has_policy = any(remark != INCOMPLETE_REMARK for remark in decision.remarks)
    decision = replace(decision, remarks=(REDACTED_REMARK,) if has_policy and is_known else ())
    attempts = tuple(_redact_attempt(attempt, visible_entities) for attempt in decision.attempts)
    if attempts == decision.attempts:
        return decision
    denial = f"Denied: {decision.question.principal} lacks privileges on entities that you may not see."
    sentence = decision.sentence if decision.is_permitted else denial
    return replace(decision, sentence=sentence, missing_grants=None, unlisted_count=0, attempts=attempts)


def _ranges_over_entities(attempt: Attempt) -> bool:
    return attempt.requirement == ALL_LIVE or any(map(_ranges_over_entities, attempt.parts))


def redact_all(decision: Decision) -> Decision:
    """Return the same decision without any address that a rule over all live entities checked."""
    return redact(decision, lambda attempt: EntitiesWithoutPrivilege(is_empty=False))


def _redact_attempt(attempt: Attempt, visible_entities: VisibleEntities) -> Attempt:
    parts = tuple(_redact_attempt(part, visible_entities) for part in attempt.parts)
    visible = (
        visible_entities(attempt) if attempt.requirement == ALL_LIVE and attempt.missing_grants else None
    )
    if visible is None:
        return replace(attempt, parts=parts)
    (privilege,) = attempt.privileges
    words = f"{privilege} on all live entities in {attempt.address} that the rule covers; you may not see some of them"
    return replace(
        attempt,
        words=words,
        missing_grants=tuple((address, privilege) for address in visible.addresses),
        unlisted_count=visible.unlisted_count,
        checked_count=0,
        parts=parts,
    )
