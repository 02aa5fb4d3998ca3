"""The verdict with its reasons: a sentence, the tree of attempts, the source, the smallest missing set.

INVARIANT: a decision is allowed exactly when its tree is met, and the tree is made by the same facts that `decide` reads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from entities.address import Address, instance_address
from entities.vocabulary import ANY, KIND_ORDER, KINDS, Privilege, with_article
from grants.policies.decide import Facts, HeldGrant
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Source
from grants.policies.question import Question

MissingGrant = tuple[Address, Privilege]

NOT_REGISTERED = "not registered"
STATES_IN_WORDS = {"planned": "is only planned", "deleted": "was deleted", NOT_REGISTERED: "is not registered"}


@dataclass(frozen=True, slots=True)
class UnlistedGrants:
    """So many further gaps of one rule over all live entities."""

    privilege: Privilege
    kind: str | None
    count: int


# grants that together would meet an expression
MissingSet = frozenset[MissingGrant | UnlistedGrants]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One node of the requirement tree as it was tried.

    requirement: has, at or below, all live, always, all, any or given. wanted: privileges of which one is enough. where: the
    address looked at. grants: what met it. missing: what would meet it, one choice among equals. words: the wish in a line.
    total: of `all live`, the number of live entities looked at; kind: the only one that it looks at, None for every kind;
    unlisted_count: how many that lack it are counted and not named.
    """

    requirement: str
    met: bool
    words: str
    wanted: tuple[Privilege, ...] = ()
    where: Address | None = None
    grants: tuple[HeldGrant, ...] = ()
    missing: tuple[MissingGrant, ...] = ()
    parts: tuple["Attempt", ...] = ()
    total: int = 0
    kind: str | None = None
    unlisted_count: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer with its reasons.

    reason: why there was nothing to weigh (an unknown subject, kind or operation, or no rule); empty otherwise.
    missing: the smallest set of grants that would turn a denial into a permit; None on a permit and where none would.
    unlisted_count: how many further ones of that set are counted and not named.
    state: of the target, where it is told and is not live: planned, deleted or not registered.
    """

    question: Question
    allowed: bool
    sentence: str
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()
    source: Source | None = None
    missing: tuple[MissingGrant, ...] | None = None
    unlisted_count: int = 0
    state: str = ""

    @property
    def generation(self) -> str:
        return self.question.generation


def explain(question: Question, facts: Facts) -> Decision:
    """Answer `question` in full."""
    reason = early_denial_reason(question, facts)
    policy = question.policy
    if reason:
        return Decision(question, False, f"Denied: {reason}.", reason, source=policy.source if policy else None)
    assert policy is not None and policy.requirement is not None
    tree = try_expression(policy.requirement, question, facts)
    answer = Decision(question, tree.met, _sentence(question, tree), source=policy.source,
                      attempts=tree.parts if tree.requirement == "any" else (tree,))
    if tree.met:
        return answer
    missing, more = smallest_missing_with_count(policy.requirement, question, facts)
    return replace(answer, missing=missing, unlisted_count=more)


def with_state(answer: Decision, state: str) -> Decision:
    """The same answer, which says that its target is not live."""
    words = f"{answer.question.target} {STATES_IN_WORDS[state]}"
    return replace(answer, state=state, sentence=f"{answer.sentence.removesuffix('.')}; {words}.")


def early_denial_reason(question: Question, facts: Facts) -> str:
    """Why the question is denied before any requirement is looked at; empty when there is one to look at."""
    if question.unknown_reason:
        return question.unknown_reason
    if not facts.subject_is_known:
        return f"{question.principal} is not a known, active principal"
    policy = question.policy
    assert policy is not None
    if policy.requirement is None:
        kind = KINDS[question.known_target.kind].title
        reason = f"the `{question.generation}` generation has no rule for `{question.operation}` on {with_article(kind)}"
        return f"{reason}; {policy.advice}" if policy.advice else reason
    return ""


def try_expression(expression: Expression, question: Question, facts: Facts) -> Attempt:
    """Try `expression` and keep what was found."""
    match expression:
        case Has(privileges, scope):
            return _attempt_has(privileges, _known_address_at(question, scope), facts)
        case HasAtOrBelow():
            target = question.known_target
            found = facts.grant_at_or_below(target)
            return Attempt("at or below", found is not None, f"any privilege on {target} or anything inside it", ANY,
                           target, (found,) if found else (), () if found else ((target, ANY[0]),))
        case HasOnAllLive(privilege, kind):
            return _attempt_all_live(privilege, kind, question.known_target, facts)
        case Always():
            return Attempt("always", True, "nothing but an active principal")
        case AllOf(parts):
            tried = tuple(try_expression(part, question, facts) for part in parts if is_applicable(part, question))
            return Attempt("all", all(part.met for part in tried), "all of these", parts=tried)
        case AnyOf(parts):
            tried = tuple(try_expression(part, question, facts) for part in parts if is_applicable(part, question))
            return Attempt("any", any(part.met for part in tried), "one of these", parts=tried)
        case Given(parameter, then):
            if not question.has_parameter(parameter):
                return Attempt("given", True, f"nothing, as the question names no {parameter}")
            return try_expression(then, question, facts)
        case _:
            raise UnknownExpression(expression)


def _known_address_at(question: Question, scope: Scope) -> Address:
    """Return the address at `scope`; `Given` guards those that a question may lack."""
    address = question.address_at(scope)
    assert address is not None, scope
    return address


def is_applicable(expression: Expression, question: Question) -> bool:
    """Whether the question brings along what `expression` depends on."""
    return not isinstance(expression, Given) or question.has_parameter(expression.parameter)


def _attempt_has(privileges: tuple[Privilege, ...], place: Address, facts: Facts) -> Attempt:
    held = facts.privileges_on(place)
    found = tuple(HeldGrant(held[privilege], place, privilege) for privilege in privileges if privilege in held)
    return Attempt("has", bool(found), f"{privileges_in_words(privileges)} on {place}", privileges, place, found,
                   () if found else ((place, privileges[0]),))


def _attempt_all_live(privilege: Privilege, kind: str | None, place: Address, facts: Facts) -> Attempt:
    lacking = facts.missing_entities(place, privilege, kind)
    entities = f"live {KINDS[kind].plural}" if kind else "live entities"
    words = f"{privilege} on all {lacking.total:,} {entities} in {place}" if lacking.total else (
        f"{privilege} on all {entities} in {place}, of which there are none")
    return Attempt("all live", lacking.is_empty, words, (privilege,), place, total=lacking.total, kind=kind,
                   missing=tuple((address, privilege) for address in lacking.addresses), unlisted_count=lacking.unlisted_count)


def smallest_missing_grants(expression: Expression, question: Question, facts: Facts) -> tuple[MissingGrant, ...] | None:
    """The fewest grants that would meet `expression`, one choice among equals; None where no grants would."""
    return smallest_missing_with_count(expression, question, facts)[0]


def smallest_missing_with_count(expression: Expression, question: Question,
                                facts: Facts) -> tuple[tuple[MissingGrant, ...] | None, int]:
    """The same as far as the facts name what lacks, and how many grants more the set has."""
    choices = []
    for choice in minimal_missing_sets(expression, question, facts):
        more = sum(gap.count for gap in choice if isinstance(gap, UnlistedGrants))
        choices.append((tuple(sorted((gap for gap in choice if not isinstance(gap, UnlistedGrants)), key=_gap_order)), more))
    return min(choices, key=lambda choice: (len(choice[0]) + choice[1], [_gap_order(gap) for gap in choice[0]]),
               default=(None, 0))


def minimal_missing_sets(expression: Expression, question: Question,
                         facts: Facts) -> list[MissingSet]:
    """Every minimal way to meet `expression`, as sets of grants still to be made; [empty set] where it is met.

    What the facts count and do not name is there as one `Unnamed`; no rule looks at all live entities twice
    (tests/grants/policies/test_catalogue.py), so nothing of it is counted twice.
    """
    match expression:
        case Has(privileges, scope):
            place = _known_address_at(question, scope)
            if not facts.privileges_on(place).keys().isdisjoint(privileges):
                return [frozenset()]
            # of instances there is one; nothing can be granted on another
            if place.kind == "instance" and place != instance_address():
                return []
            return [frozenset([(place, privilege)]) for privilege in privileges]
        case HasAtOrBelow():
            if facts.has_grant_at_or_below(question.known_target):
                return [frozenset()]
            return [frozenset([(question.known_target, privilege)]) for privilege in ANY]
        case HasOnAllLive(privilege, kind):
            lacking = facts.missing_entities(question.known_target, privilege, kind)
            unnamed = [UnlistedGrants(privilege, kind, lacking.unlisted_count)] if lacking.unlisted_count else []
            return [frozenset([*((address, privilege) for address in lacking.addresses), *unnamed])]
        case AllOf(parts):
            combined = product(*(minimal_missing_sets(part, question, facts) for part in parts))
            return _minimal(MissingSet().union(*choice) for choice in combined)
        case AnyOf(parts):
            return _minimal(choice for part in parts for choice in minimal_missing_sets(part, question, facts))
        case Given(parameter, then):
            return minimal_missing_sets(then, question, facts) if question.has_parameter(parameter) else [frozenset()]
        case Always():
            return [frozenset()]
        case _:
            raise UnknownExpression(expression)


def _minimal(choices: Iterable[MissingSet]) -> list[MissingSet]:
    kept: list[MissingSet] = []
    for choice in sorted(dict.fromkeys(choices), key=len):
        if not any(smaller <= choice for smaller in kept):
            kept.append(choice)
    return kept


def _gap_order(gap: MissingGrant) -> tuple[int, str, int]:
    address, privilege = gap
    return KIND_ORDER[address.kind], address.key, ANY.index(privilege)


def _sentence(question: Question, tree: Attempt) -> str:
    if tree.met:
        return f"Allowed: {_met(question, tree)}."
    if tree.requirement == "any":
        unmet = _unmet_parts(tree)
        none_of = f"neither {unmet[0]} nor {unmet[1]}" if len(unmet) == 2 else f"none of {join_words(unmet, 'or')}"
        return f"Denied: {question.principal} holds {none_of}."
    return f"Denied: {question.principal} lacks {_unmet(tree)}."


def _met(question: Question, tree: Attempt) -> str:
    """What met the tree, in words: the first way that succeeded."""
    if tree.requirement == "always":
        return f"`{question.operation}` asks for nothing but an active principal"
    grants = list(dict.fromkeys(_deciding_grants(tree)))
    clauses = [_held_words(question, grant) for grant in grants]
    clauses += [node.words for node in _deciding(tree) if node.requirement == "all live"]
    return f"{question.principal} holds {join_words(clauses, 'and')}"


def _deciding(tree: Attempt) -> Iterator[Attempt]:
    if tree.requirement == "any":
        yield from _deciding(next(part for part in tree.parts if part.met))
    elif tree.requirement == "all":
        for part in tree.parts:
            yield from _deciding(part)
    else:
        yield tree


def _deciding_grants(tree: Attempt) -> Iterator[HeldGrant]:
    for node in _deciding(tree):
        yield from node.grants[:1]


def _held_words(question: Question, grant: HeldGrant) -> str:
    via = "" if grant.principal == question.principal else f" through {grant.principal}"
    return f"{grant.privilege} on {grant.entity}{via}"


def _unmet(tree: Attempt) -> str:
    match tree.requirement:
        case "all":
            return join_words(_unmet_parts(tree), "and")
        case "any":
            return f"one of {join_words(_unmet_parts(tree), 'or')}"
        case "all live":
            (address, privilege), others = tree.missing[0], len(tree.missing) - 1 + tree.unlisted_count
            if not others:
                return f"{privilege} on {address}"
            return (f"{privilege} on {others + 1:,} of the {tree.total:,} live entities in {tree.where} "
                    f"({address} and {others:,} more)")
        case _:
            return tree.words


def _unmet_parts(tree: Attempt) -> list[str]:
    return list(dict.fromkeys(_unmet(part) for part in tree.parts if not part.met))


def privileges_in_words(privileges: tuple[Privilege, ...]) -> str:
    return "any privilege" if privileges == ANY else join_words([str(privilege) for privilege in privileges], "or")


def join_words(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
