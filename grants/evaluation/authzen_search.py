"""Which entities, principals and operations a question is true for: AuthZEN's searches, complete and page by page.

INVARIANT: what is found here is exactly what `grants.evaluation.engine` permits; both read the same requirement.
"""

from dataclasses import dataclass

from django.db.models import QuerySet

from entities.models import Entity
from entities.vocabulary import ANY
from grants.evaluation.candidates import candidate_queries
from grants.evaluation.effective_grants import GrantTable, grant_tables, hold_at_most
from grants.evaluation.entity_filters import FilterContext, requirement_condition
from grants.evaluation.facts import gather_facts
from grants.evaluation.principal_filters import permitted_principals
from grants.policies.catalogue import generation_by_name
from grants.policies.decide import is_permitted
from grants.policies.grammar import AllOf, AnyOf, Expression, has
from grants.policies.question import Question

# Where the grants lead to few entities, they are collected and sorted. Where they lead to more, a page is mostly met among
# the first entities of the kind. Neither costs much while it is tried with little, so the two take turns with more each time.
FEW_GRANTS = 400
MAX_COLLECTED = (2_000, 50_000)
MAX_WALKED = (400, 5_000)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of ids in their order. has_more: whether others follow. total: of all pages, where it is known."""

    ids: list[str]
    has_more: bool
    total: int | None = None


EMPTY_PAGE = SearchPage([], False, 0)


def search_entities(question: Question, *, after: str, max_rows: int, visible_in: str | None = None) -> SearchPage:
    """The keys after `after` of registered entities of `question.target.kind`, in any state, on which it is permitted.

    visible_in: the generation in which the subject must also see what is found. Three queries, or up to nine where the
    subject holds very much.
    """
    requires = _requirement(question, visible_in)
    tables = requires and grant_tables(question.subject_type, question.subject)
    if not tables:
        return EMPTY_PAGE
    search = _EntitySearch(requires, tables, question, after, max_rows)
    if hold_at_most(FEW_GRANTS, tables) and (found := search.collected(FEW_GRANTS)):
        return found
    for max_entities, max_keys in zip(MAX_WALKED, MAX_COLLECTED, strict=True):
        if found := search.walked(max_entities) or search.collected(max_keys):
            return found
    return search.walked(None)


def _requirement(question: Question, visible_in: str | None) -> Expression | None:
    policy = question.policy
    if policy is None or policy.requirement is None or visible_in is None:
        return policy and policy.requirement
    generation = generation_by_name(visible_in)
    rules = [generation.policy(question.target.kind, operation) for operation in ("list", "get")]
    shown = [rule.requirement for rule in rules if rule is not None and rule.requirement is not None]
    # who holds something on exactly that address knows of it already
    return AllOf((policy.requirement, AnyOf((*shown, has(*ANY)))))


@dataclass(frozen=True, slots=True)
class _EntitySearch:
    """The ways to a page of entities; each gives None where it does not lead there."""

    requires: Expression
    tables: tuple[GrantTable, ...]
    question: Question
    after: str
    max_rows: int

    @property
    def kind(self) -> str:
        return self.question.target.kind

    def collected(self, max_keys: int) -> SearchPage | None:
        """From the grants, where they lead to no more than `max_keys`."""
        found = candidate_queries(self.requires, FilterContext(self.tables, [self.kind], self.question))
        if found is None:
            return None
        rows = found[0].union(*found[1:], all=True) if len(found) > 1 else found[0]
        keys = list(rows[: max_keys + 1])
        return None if len(keys) > max_keys else _cut(sorted(set(keys)), self.after, self.max_rows)

    def walked(self, max_entities: int | None) -> SearchPage | None:
        """Along the entities in order, where the page is full within the first `max_entities`."""
        rows = Entity.objects.filter(kind=self.kind, key__gt=self.after).order_by("key").values_list("key", flat=True)
        end = None if max_entities is None else rows[max_entities : max_entities + 1].first()
        if end is not None:
            rows = rows.filter(key__lt=end)
        listed = FilterContext(self.tables, [self.kind], self.question, row_by_row=True)
        found = _first(rows.filter(requirement_condition(self.requires, listed)), self.after, self.max_rows)
        return found if end is None or found.has_more else None


def search_principals(question: Question, *, after: str, max_rows: int) -> SearchPage:
    """The names after `after`, as the database sorts them, of active principals of `question.subject_type` to whom it is
    permitted. At most three queries."""
    policy = question.policy
    if policy is None or policy.requirement is None:
        return EMPTY_PAGE
    rows, name = permitted_principals(policy.requirement, question)
    if not max_rows:
        total = rows.count()
        return SearchPage([], total > 0, total)
    return _first(rows.filter(**{f"{name}__gt": after}).order_by(name).values_list(name, flat=True), after, max_rows)


def search_operations(questions: list[Question], *, after: str, max_rows: int) -> SearchPage:
    """Of which of these questions the operation is permitted, in their order, after the operation `after`. One query."""
    answers = zip(questions, gather_facts(questions), strict=True)
    permitted = {question.operation: is_permitted(question, facts) for question, facts in answers}
    operations = list(permitted)
    start = operations.index(after) + 1 if after in permitted else 0
    following = [operation for operation in operations[start:] if permitted[operation]]
    return SearchPage(following[:max_rows], len(following) > max_rows, sum(permitted.values()))


def _first(rows: QuerySet, after: str, max_rows: int) -> SearchPage:
    ids = list(rows[: max_rows + 1])
    has_more = len(ids) > max_rows
    return SearchPage(ids[:max_rows], has_more, None if has_more or after else len(ids))


def _cut(ids: list[str], after: str, max_rows: int) -> SearchPage:
    following = [key for key in ids if key > after]
    return SearchPage(following[:max_rows], len(following) > max_rows, len(ids))
