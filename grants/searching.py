"""Which entities, principals and operations a question is true for: AuthZEN's searches, complete and page by page.

INVARIANT: what is found here is exactly what `grants.engine` permits; both read the same requirement.
"""

from dataclasses import dataclass

from django.db.models import QuerySet

from entities.models import Entity
from entities.vocabulary import ANY
from grants.candidates import searches
from grants.facts import gather
from grants.holders import tables_of
from grants.listing import Listed, condition
from grants.permitted_principals import principals_permitted
from grants.policies.catalogue import generation_named
from grants.policies.decide import is_permitted
from grants.policies.expressions import AllOf, AnyOf, Expression, has
from grants.policies.question import Question

# as many are collected and sorted; where there are more, the first of them are soon met in the order of their keys
CANDIDATES_AT_MOST = 4_000


@dataclass(frozen=True, slots=True)
class Found:
    """One page of ids in their order. has_more: whether others follow. total: of all pages, where it is known."""

    ids: list[str]
    has_more: bool
    total: int | None = None


NOTHING = Found([], False, 0)


def entities_found(question: Question, *, after: str, most_rows: int, seen_only_in: str | None = None) -> Found:
    """The keys after `after` of registered entities of `question.target.kind`, in any state, on which it is permitted.

    seen_only_in: the generation in which the subject must also see what is found. At most three queries.
    """
    requires = _requirement(question, seen_only_in)
    tables = requires and tables_of(question.subject_type, question.subject)
    if not tables:
        return NOTHING
    kind = question.target.kind
    keys = _collected(requires, Listed(tables, [kind], question))
    if keys is not None:
        return _cut(sorted(keys), after, most_rows)
    listed = Listed(tables, [kind], question, row_by_row=True)
    rows = Entity.objects.filter(condition(requires, listed), kind=kind, key__gt=after).order_by("key")
    return _first(rows.values_list("key", flat=True), after, most_rows)


def _requirement(question: Question, seen_only_in: str | None) -> Expression | None:
    policy = question.policy
    if policy is None or policy.requires is None or seen_only_in is None:
        return policy and policy.requires
    generation = generation_named(seen_only_in)
    rules = [generation.policy(question.target.kind, operation) for operation in ("list", "get")]
    shown = [rule.requires for rule in rules if rule is not None and rule.requires is not None]
    # who holds something on exactly that address knows of it already
    return AllOf((policy.requires, AnyOf((*shown, has(*ANY)))))


def _collected(requires: Expression, listed: Listed) -> set[str] | None:
    """All keys, where the grants lead to few; None where there are many. At most one query."""
    found = searches(requires, listed)
    if found is None:
        return None
    rows = found[0].union(*found[1:], all=True) if len(found) > 1 else found[0]
    keys = list(rows[: CANDIDATES_AT_MOST + 1])
    return None if len(keys) > CANDIDATES_AT_MOST else set(keys)


def principals_found(question: Question, *, after: str, most_rows: int) -> Found:
    """The names after `after`, as the database sorts them, of active principals of `question.subject_type` to whom it is
    permitted. At most three queries."""
    policy = question.policy
    if policy is None or policy.requires is None:
        return NOTHING
    rows, name = principals_permitted(policy.requires, question)
    if not most_rows:
        total = rows.count()
        return Found([], total > 0, total)
    return _first(rows.filter(**{f"{name}__gt": after}).order_by(name).values_list(name, flat=True), after, most_rows)


def operations_found(questions: list[Question], *, after: str, most_rows: int) -> Found:
    """Of which of these questions the operation is permitted, in their order, after the operation `after`. One query."""
    answers = zip(questions, gather(questions), strict=True)
    permitted = {question.operation: is_permitted(question, facts) for question, facts in answers}
    operations = list(permitted)
    start = operations.index(after) + 1 if after in permitted else 0
    following = [operation for operation in operations[start:] if permitted[operation]]
    return Found(following[:most_rows], len(following) > most_rows, sum(permitted.values()))


def _first(rows: QuerySet, after: str, most_rows: int) -> Found:
    ids = list(rows[: most_rows + 1])
    has_more = len(ids) > most_rows
    return Found(ids[:most_rows], has_more, None if has_more or after else len(ids))


def _cut(ids: list[str], after: str, most_rows: int) -> Found:
    following = [key for key in ids if key > after]
    return Found(following[:most_rows], len(following) > most_rows, len(ids))
