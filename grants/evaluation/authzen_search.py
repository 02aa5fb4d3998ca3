"""Search the entities, principals and operations for which a question is permitted, page by page (AuthZEN searches).

INVARIANT: the results are exactly what `grants.evaluation.engine` permits; both evaluate the same requirement.
"""

from dataclasses import dataclass

from django.db.models import QuerySet

from entities.models import Entity
from entities.vocabulary import ANY
from grants.evaluation.candidates import candidate_queries
from grants.evaluation.effective_grants import GrantTable, grant_tables, has_at_most
from grants.evaluation.entity_filters import FilterContext, requirement_condition
from grants.evaluation.facts import gather_facts
from grants.evaluation.principal_filters import permitted_principals
from grants.policies.catalogue import generation_by_name
from grants.policies.decide import is_permitted
from grants.policies.grammar import AllOf, AnyOf, Expression, has
from grants.policies.question import Question

# A page of entities is computed in one of two ways: from the grants, if they lead to few entities; or along the entities of the
# kind in order, if the page is full after few of them. A bounded attempt is cheap, so both alternate with growing limits.
FEW_GRANTS = 400
MAX_COLLECTED = (2_000, 50_000)
MAX_WALKED = (400, 5_000)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of ids in their order. has_more: whether others follow. total: of all pages, if it is known."""

    ids: list[str]
    has_more: bool
    total: int | None = None


EMPTY_PAGE = SearchPage([], False, 0)


def search_entities(question: Question, *, after: str, max_rows: int, visible_in: str | None = None) -> SearchPage:
    """Return the keys after `after` of the registered entities, in any state, on which the question is permitted.

    The entities are of `question.target.kind`. visible_in: a generation in which the subject must also see each result.
    Three queries; up to nine for a subject with very many grants.
    """
    requirement = _requirement(question, visible_in)
    tables = requirement and grant_tables(question.subject_type, question.subject)
    if not tables:
        return EMPTY_PAGE
    search = _EntitySearch(requirement, tables, question, after, max_rows)
    if has_at_most(FEW_GRANTS, tables) and (page := search.page_from_grants(FEW_GRANTS)):
        return page
    for max_entities, max_keys in zip(MAX_WALKED, MAX_COLLECTED, strict=True):
        if page := search.page_from_entities(max_entities) or search.page_from_grants(max_keys):
            return page
    return search.page_from_entities(None)


def _requirement(question: Question, visible_in: str | None) -> Expression | None:
    policy = question.policy
    if policy is None or policy.requirement is None or visible_in is None:
        return policy and policy.requirement
    generation = generation_by_name(visible_in)
    rules = [generation.policy(question.target.kind, operation) for operation in ("list", "get")]
    shown = [rule.requirement for rule in rules if rule is not None and rule.requirement is not None]
    # a subject that has a grant on exactly this address knows the address already
    return AllOf((policy.requirement, AnyOf((*shown, has(*ANY)))))


@dataclass(frozen=True, slots=True)
class _EntitySearch:
    """Two ways to compute a page of entities; each returns None if it exceeds its limit."""

    requirement: Expression
    tables: tuple[GrantTable, ...]
    question: Question
    after: str
    max_rows: int

    @property
    def kind(self) -> str:
        return self.question.target.kind

    def page_from_grants(self, max_keys: int) -> SearchPage | None:
        """Compute the page from the grants, if they lead to at most `max_keys` keys."""
        queries = candidate_queries(self.requirement, FilterContext(self.tables, [self.kind], self.question))
        if queries is None:
            return None
        rows = queries[0].union(*queries[1:], all=True) if len(queries) > 1 else queries[0]
        keys = list(rows[: max_keys + 1])
        return None if len(keys) > max_keys else _cut(sorted(set(keys)), self.after, self.max_rows)

    def page_from_entities(self, max_entities: int | None) -> SearchPage | None:
        """Compute the page along the entities in order, if the first `max_entities` fill it; None for no limit."""
        rows = Entity.objects.filter(kind=self.kind, key__gt=self.after).order_by("key").values_list("key", flat=True)
        end = None if max_entities is None else rows[max_entities : max_entities + 1].first()
        if end is not None:
            rows = rows.filter(key__lt=end)
        context = FilterContext(self.tables, [self.kind], self.question, row_by_row=True)
        page = _first(rows.filter(requirement_condition(self.requirement, context)), self.after, self.max_rows)
        return page if end is None or page.has_more else None


def search_principals(question: Question, *, after: str, max_rows: int) -> SearchPage:
    """Return the names after `after`, as the database sorts them, of the active principals to whom the question is permitted.

    The principals are of `question.subject_type`. At most three queries.
    """
    policy = question.policy
    if policy is None or policy.requirement is None:
        return EMPTY_PAGE
    rows, name = permitted_principals(policy.requirement, question)
    if not max_rows:
        total = rows.count()
        return SearchPage([], total > 0, total)
    return _first(rows.filter(**{f"{name}__gt": after}).order_by(name).values_list(name, flat=True), after, max_rows)


def search_operations(questions: list[Question], *, after: str, max_rows: int) -> SearchPage:
    """Return the operations that are permitted among these questions, in their order, after the operation `after`. One query."""
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
