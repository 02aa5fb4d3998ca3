"""Search the entities, principals and operations for which a question is permitted, page by page (AuthZEN
searches).

INVARIANT: a search returns exactly the results that `grants.evaluation.engine` permits. Both evaluate the
same requirement.
"""

from bisect import bisect_right
from dataclasses import replace

from django.db.models import Q, QuerySet

from entities.frozen import frozen
from entities.models import Entity
from entities.vocabulary import ANY
from grants.evaluation.effective_grants import GrantTable, grant_tables, has_at_most
from grants.evaluation.engine import KnownContainers, hidden_containers
from grants.evaluation.entity_filters import EntityConditions, candidate_queries
from grants.evaluation.facts import gather_facts
from grants.evaluation.principal_filters import permitted_principals
from grants.models import GROUP
from grants.policies.catalogue import generation_by_name
from grants.policies.decide import is_permitted
from grants.policies.grammar import AllOf, AnyOf, Expression, fold, has
from grants.policies.principals import ROLE_PREFIX
from grants.policies.question import Question
from grants.querysets import union_all

# A page of entities is computed in one of two ways: from the grants, if they lead to few entities, or by
# checking the entities of the kind in order, if the first few fill the page. An attempt with a limit is
# cheap, so both ways alternate with growing limits.
FEW_GRANTS = 400
MAX_COLLECTED = (2_000, 50_000)
MAX_CHECKED = (400, 5_000)
KEYS_PER_QUERY = 500


@frozen
class SearchPage:
    """One page of ids in order. has_more: whether more ids follow. total: number of ids on all pages, if it
    is known.
    """

    ids: list[str]
    has_more: bool
    total: int | None = None


EMPTY_PAGE = SearchPage([], False, 0)


def search_entities(
    question: Question, *, after: str, max_rows: int, visible_in: str | None = None
) -> SearchPage:
    """Return a page of the entities of `question.target.kind`, in any state, on which the question is
    permitted.

    after: the page starts after this key. visible_in: return only entities that the subject can see in this
    generation. Runs three queries; up to nine for a subject with very many grants.
    """
    requirement = _requirement(question, visible_in)
    tables = requirement and grant_tables(question.subject_type, question.subject)
    if not tables:
        return EMPTY_PAGE
    search = KeySearch(requirement, tables, question.target.kind, question=question)
    keys = search.keys_from_grants(FEW_GRANTS) if has_at_most(FEW_GRANTS, tables) else None
    if keys is not None:
        following = keys[bisect_right(keys, after) :]
        return SearchPage(following[:max_rows], len(following) > max_rows, len(keys))
    first, total = search.first_keys(after, max_rows + 1)
    page = _page_of_rows(first, after, max_rows)
    return page if total is None else replace(page, total=total)


def _requirement(question: Question, visible_in: str | None) -> Expression | None:
    policy = question.policy
    if policy is None or policy.requirement is None or visible_in is None:
        return policy and policy.requirement
    generation = generation_by_name(visible_in)
    rules = [generation.policy(question.target.kind, operation) for operation in ("list", "get")]
    showing = [rule.requirement for rule in rules if rule is not None and rule.requirement is not None]
    # a subject that has a grant on exactly this address knows the address already
    return AllOf((policy.requirement, AnyOf((*showing, has(*ANY)))))


@frozen
class KeySearch:
    """Find the keys of the entities of one kind on which grants meet a requirement.

    rows: only these entities; None for all.
    """

    requirement: Expression
    tables: tuple[GrantTable, ...]
    kind: str
    rows: QuerySet[Entity] | None = None
    question: Question | None = None

    def first_keys(self, after: str, max_rows: int) -> tuple[list[str], int | None]:
        """Return the first keys after a key, and the number of all keys in `keys_from_grants` if it is known."""
        for max_entities, max_keys in zip(MAX_CHECKED, MAX_COLLECTED, strict=True):
            keys = self._keys_from_entities(after, max_rows, max_entities)
            if keys is not None:
                return keys, None
            keys = self.keys_from_grants(max_keys)
            if keys is not None:
                return self.listed_keys(keys[bisect_right(keys, after) :], max_rows), len(keys)
        return self._keys_from_entities(after, max_rows, None) or [], None

    def keys_from_grants(self, max_keys: int) -> list[str] | None:
        """Return all keys, computed from the grants, also those outside `rows`; None if they lead to more than
        `max_keys` keys.
        """
        conditions = EntityConditions(self.tables, [self.kind], self.question)
        queries = candidate_queries(self.requirement, conditions)
        keys = None if queries is None else list(union_all(queries)[: max_keys + 1])
        return None if keys is None or len(keys) > max_keys else sorted(set(keys))

    def listed_keys(self, keys: list[str], max_rows: int) -> list[str]:
        """Return the first of these sorted keys that are in `rows`. Runs one query for each KEYS_PER_QUERY."""
        if self.rows is None:
            return keys[:max_rows]
        found: list[str] = []
        rows = self.rows.filter(kind=self.kind).order_by("key").values_list("key", flat=True)
        for start in range(0, len(keys), KEYS_PER_QUERY):
            found += rows.filter(key__among=keys[start : start + KEYS_PER_QUERY])
            if len(found) >= max_rows:
                break
        return found[:max_rows]

    def _keys_from_entities(self, after: str, max_rows: int, max_entities: int | None) -> list[str] | None:
        """Return the first keys after a key, computed by checking the entities in order; None if the first
        `max_entities` do not contain `max_rows` of them.

        max_entities: None for no limit.
        """
        rows = Entity.objects.all() if self.rows is None else self.rows
        rows = rows.filter(kind=self.kind, key__gt=after).order_by("key").values_list("key", flat=True)
        end = None if max_entities is None else rows[max_entities : max_entities + 1].first()
        if end is not None:
            rows = rows.filter(key__lt=end)
        conditions = EntityConditions(self.tables, [self.kind], self.question, row_by_row=True)
        keys = list(rows.filter(fold(self.requirement, conditions))[:max_rows])
        return keys if end is None or len(keys) == max_rows else None


def search_principals(question: Question, *, after: str, max_rows: int) -> SearchPage:
    """Return a page of the active users, groups or roles that are permitted.

    after: the page starts after this name, in the sort order of the database. Runs at most three queries.
    """
    policy = question.policy
    if policy is None or policy.requirement is None:
        return EMPTY_PAGE
    rows, name_column = permitted_principals(policy.requirement, question)
    if question.subject_type == GROUP.name:
        is_role = Q(**{f"{name_column}__startswith": ROLE_PREFIX})
        rows = rows.filter(is_role if question.subject.startswith(ROLE_PREFIX) else ~is_role)
    if not max_rows:
        total = rows.count()
        return SearchPage([], total > 0, total)
    names = (
        rows.filter(**{f"{name_column}__gt": after}).order_by(name_column).values_list(name_column, flat=True)
    )
    return _page_of_rows(names, after, max_rows)


def search_operations(
    questions: list[Question], *, after: str, max_rows: int, known_containers: KnownContainers | None = None
) -> SearchPage:
    """Return a page of the permitted operations among these questions, in the order of the questions. Runs
    one query.

    after: the page starts after this operation. known_containers: see
    `grants.evaluation.engine.answer_questions`.
    """
    facts_of_all = gather_facts(
        questions, empty=hidden_containers(questions, known_containers) if known_containers else ()
    )
    decisions = {
        question.operation: is_permitted(question, facts)
        for question, facts in zip(questions, facts_of_all, strict=True)
    }
    operations = list(decisions)
    start = operations.index(after) + 1 if after in decisions else 0
    following = [operation for operation in operations[start:] if decisions[operation]]
    return SearchPage(following[:max_rows], len(following) > max_rows, sum(decisions.values()))


def _page_of_rows(rows: QuerySet | list[str], after: str, max_rows: int) -> SearchPage:
    ids = list(rows[: max_rows + 1])
    has_more = len(ids) > max_rows
    return SearchPage(ids[:max_rows], has_more, None if has_more or after else len(ids))
