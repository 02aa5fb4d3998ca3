"""Search the entities that an account can see. The best matches come first; the cost does not grow with the
tenant.

INVARIANT: a search returns only entities that are visible according to `grants.evaluation.visibility`. If at
most MAX_CANDIDATES rows match, it returns the best of all matches. If more match, it still finds an entity by
its full address.
"""

import heapq
import re
from collections.abc import Iterable

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from entities.address import ancestor_kinds
from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import matching_entities
from entities.vocabulary import KIND_ORDER, KINDS
from grants.active_generation import active_generation
from grants.authority.stewards import stewarded_condition
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.visibility import visibility_of
from grants.models import User

MAX_RESULTS = 50
# ranking this many rows takes milliseconds
MAX_CANDIDATES = 2_000
MAX_HELD = 1_000
MAX_NAMESPACES = 500

# a trigram index needs three letters or digits in a row; shorter text is only matched at the start of a name
_THREE_LETTERS = re.compile(r"[^\W_]{3}")
_LETTER = re.compile(r"[^\W_]")

# primary key, kind and key of an entity
Candidate = tuple[int, str, str]


@frozen
class SearchResult:
    """The result of a search.

    rows: the best matches. total: number of matches among the candidates. is_all: whether all matches were
    candidates.
    """

    rows: list[Entity]
    total: int
    is_all: bool


@frozen
class SearchQuery:
    """A parsed search text.

    kind: the kind before the colon, or empty. name: the rest of the text. only: the only kind to search, or
    empty.
    """

    kind: str
    name: str
    only: str = ""

    @property
    def is_short(self) -> bool:
        """Return whether the name is too short for a substring search, so that only the starts of names
        match.
        """
        return not self.kind and not _THREE_LETTERS.search(self.name)

    @property
    def matches(self) -> QuerySet[Entity]:
        return self._of_requested_kind(self._text_matches)

    @property
    def _text_matches(self) -> QuerySet[Entity]:
        text = f"{self.kind}:{self.name}" if self.kind else self.name
        if not self.is_short:
            # the index returns the keys of one kind in order; other matches would have to be read completely
            # to sort them
            return matching_entities(text) if self.kind else matching_entities(text).order_by()
        if not _LETTER.search(text):
            return Entity.objects.none()
        return (
            matching_entities(text).order_by().filter(Q(key__istartswith=text) | Q(key__icontains=f".{text}"))
        )

    @property
    def likely_matches(self) -> list[QuerySet[Entity]]:
        """The most likely matches: entities with exactly this address or name, and namespaces."""
        exact_key = Entity.objects.filter(kind__in=[self.kind] if self.kind else KINDS, key=self.name)
        querysets = (
            [exact_key]
            if self.kind
            else [exact_key, self._exact_names, self._text_matches.filter(kind="namespace")]
        )
        return [self._of_requested_kind(rows) for rows in querysets]

    def _of_requested_kind(self, rows: QuerySet[Entity]) -> QuerySet[Entity]:
        return rows.filter(kind=self.only) if self.only else rows

    @property
    def _exact_names(self) -> QuerySet[Entity]:
        """Children of a namespace with exactly this name.

        The keys are looked up for each namespace. Searching keys by their end would read every key that
        contains the letters.
        """
        namespaces = Entity.objects.filter(kind="namespace").order_by()[:MAX_NAMESPACES]
        keys = namespaces.values_list(Concat(F("key"), Value(f".{self.name}")))
        return Entity.objects.filter(
            kind__in=[kind for kind in KINDS if KINDS[kind].parent == "namespace"], key__in=keys
        )

    def rank(self, candidate: Candidate) -> tuple[int, int, str]:
        """Return a sort key: exact names, then names that start with the text, then names that contain it.

        Within each of these, sort by kind, containers first.
        """
        _, kind, key = candidate
        text, names = self.name.lower(), _names(kind, key.lower())
        if text in names or text == key.lower():
            distance = 0
        elif any(name.startswith(text) for name in names):
            distance = 1
        else:
            distance = 2 if text in names[0] else 3
        return distance, KIND_ORDER[kind], key


def parse_search(text: str, only: str = "") -> SearchQuery:
    text = text.strip()
    kind, colon, name = text.partition(":")
    return (
        SearchQuery(kind.lower(), name, only)
        if colon and kind.lower() in KINDS
        else SearchQuery("", text, only)
    )


def search_visible_entities(
    user: User, text: str, max_rows: int = MAX_RESULTS, *, only: str = ""
) -> SearchResult:
    """Return the best visible matches. only: the single kind to search, or empty for all kinds.

    Runs at most eleven queries; six if at most MAX_CANDIDATES rows match.
    """
    query = parse_search(text, only)
    if user.can_see_all:
        candidates, is_all = _candidates(query, [])
        return _best_matches(candidates, query, max_rows, is_all)
    visibility = visibility_of(user, active_generation())
    stewarded = stewarded_condition(user)
    if visibility.has_few_grants:
        return _best_matches(
            _read(query.matches.filter(visibility.all_rows | stewarded)), query, max_rows, True
        )
    candidates, is_all = _candidates(query, _held_entity_ids(user))
    visible = Entity.objects.filter(
        visibility.first_rows | stewarded, pk__among=[pk for pk, _, _ in candidates]
    )
    return _best_matches(_read(visible), query, max_rows, is_all)


def _candidates(query: SearchQuery, held_entity_ids: list[QuerySet]) -> tuple[set[Candidate], bool]:
    """Return the matches, and whether these are all of them.

    If there are too many, return the first matches, the most likely ones, and matches on which the user holds
    grants.
    """
    candidates = _read(query.matches[: MAX_CANDIDATES + 1])
    if len(candidates) <= MAX_CANDIDATES:
        return set(candidates), True
    extra = [*query.likely_matches, *(query.matches.order_by().filter(pk__in=ids) for ids in held_entity_ids)]
    return {*candidates, *(candidate for rows in extra for candidate in _read(rows[:MAX_CANDIDATES]))}, False


def _held_entity_ids(user: User) -> list[QuerySet]:
    """Return the ids of entities on which the user holds grants, at most MAX_HELD for each grant table."""
    return [
        table.rows().order_by().values("content_object_id")[:MAX_HELD]
        for table in grant_tables_of_principal(user) or ()
    ]


def _read(rows: QuerySet[Entity]) -> list[Candidate]:
    return list(rows.values_list("pk", "kind", "key"))


def _best_matches(
    candidates: Iterable[Candidate], query: SearchQuery, max_rows: int, is_all: bool
) -> SearchResult:
    candidates = set(candidates)
    best_ids = [pk for pk, _, _ in heapq.nsmallest(max_rows, candidates, key=query.rank)]
    entities = Entity.objects.in_bulk(best_ids)
    return SearchResult([entities[pk] for pk in best_ids], len(candidates), is_all)


def _names(kind: str, key: str) -> list[str]:
    """Return the name of an entity; for a program also the name without its type.

    Same result as `Address.name`, without building an Address for each of thousands of candidates.
    """
    depth = len(ancestor_kinds(kind))
    name = key.split(".", depth - 1)[-1] if depth > 1 else key
    return [name, name.partition(".")[2]] if kind == "program" else [name]
