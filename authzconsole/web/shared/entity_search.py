"""What a text finds of what somebody sees: the best of it first, and at a cost that does not grow with the tenant.

INVARIANT: nothing is found that `grants.evaluation.visibility` does not show. Where no more rows match than are looked at, the
best of all that match are found; where more do, an address that is written whole still is.
"""

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from entities.address import ancestor_kinds
from entities.models import Entity
from entities.selectors import matching_entities
from entities.vocabulary import KIND_ORDER, KINDS
from grants.active_generation import active_generation
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.visibility import visibility_of
from grants.models import User

MAX_RESULTS = 50
# so many are looked at one by one in milliseconds
MOST_LOOKED_AT = 2_000
MOST_HELD = 1_000
MOST_NAMESPACES = 500

# an index of three letters at a time finds what holds three in a row; of fewer it finds only where a word begins
_THREE_LETTERS = re.compile(r"[^\W_]{3}")
_LETTER = re.compile(r"[^\W_]")

# the number of a row, its kind and its key
Looked = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """rows: the best, at most as many as were asked for. total: how many were found of those looked at. is_all: whether all that
    match were looked at."""

    rows: list[Entity]
    total: int
    is_all: bool


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """kind: the one that was written before the colon, or empty. name: what was written beside it. only: the one kind that is
    looked for, or empty."""

    kind: str
    name: str
    only: str = ""

    @property
    def is_short(self) -> bool:
        """Whether the name is looked for only where a part of a key begins."""
        return not self.kind and not _THREE_LETTERS.search(self.name)

    @property
    def matches(self) -> QuerySet[Entity]:
        return self._of_its_kind(self._with_the_text)

    @property
    def _with_the_text(self) -> QuerySet[Entity]:
        text = f"{self.kind}:{self.name}" if self.kind else self.name
        if not self.is_short:
            # the keys of one kind come from the index in their order; to sort what else matches takes as long as to read it
            return matching_entities(text) if self.kind else matching_entities(text).order_by()
        if not _LETTER.search(text):
            return Entity.objects.none()
        return matching_entities(text).order_by().filter(Q(key__istartswith=text) | Q(key__icontains=f".{text}"))

    @property
    def surest(self) -> list[QuerySet[Entity]]:
        """Of the matches those that are meant most likely: what is written whole, what is called so, the namespaces."""
        written = Entity.objects.filter(kind__in=[self.kind] if self.kind else KINDS, key=self.name)
        rows = [written] if self.kind else [written, self._called_so, self._with_the_text.filter(kind="namespace")]
        return [self._of_its_kind(some) for some in rows]

    def _of_its_kind(self, rows: QuerySet[Entity]) -> QuerySet[Entity]:
        return rows.filter(kind=self.only) if self.only else rows

    @property
    def _called_so(self) -> QuerySet[Entity]:
        """What lies under exactly this name in a namespace: looked up in each, as to find keys by their end reads all with these
        letters anywhere."""
        namespaces = Entity.objects.filter(kind="namespace").order_by()[:MOST_NAMESPACES]
        keys = namespaces.values_list(Concat(F("key"), Value(f".{self.name}")))
        return Entity.objects.filter(kind__in=[kind for kind in KINDS if KINDS[kind].parent == "namespace"], key__in=keys)

    def rank(self, row: Looked) -> tuple[int, int, str]:
        """What is called so first, then what begins so, then what holds it in its own name; of these the containers first."""
        _, kind, key = row
        wanted, names = self.name.lower(), _names(kind, key.lower())
        if wanted in names or wanted == key.lower():
            likeness = 0
        else:
            likeness = 1 if any(name.startswith(wanted) for name in names) else 2 if wanted in names[0] else 3
        return likeness, KIND_ORDER[kind], key


def parse_search(text: str, only: str = "") -> SearchQuery:
    text = text.strip()
    kind, colon, name = text.partition(":")
    return SearchQuery(kind.lower(), name, only) if colon and kind.lower() in KINDS else SearchQuery("", text, only)


def search_visible_entities(user: User, text: str, most: int = MAX_RESULTS, *, only: str = "") -> SearchResult:
    """What the text finds of what the user sees; of one kind where that is given. At most ten queries; five where no more match
    than are looked at."""
    wanted = parse_search(text, only)
    if user.can_see_all:
        rows, is_all = _looked_at(wanted, [])
        return _best(rows, wanted, most, is_all)
    seen = visibility_of(user, active_generation())
    if seen.is_few:
        return _best(_addresses(wanted.matches.filter(seen.all_rows)), wanted, most, True)
    rows, is_all = _looked_at(wanted, _held(user))
    shown = Entity.objects.filter(seen.first_rows, pk__among=[pk for pk, _, _ in rows])
    return _best(_addresses(shown), wanted, most, is_all)


def _looked_at(wanted: SearchQuery, held: list[QuerySet]) -> tuple[set[Looked], bool]:
    """The matches, and whether these are all; where they are too many also the surest and some of those that are held."""
    rows = _addresses(wanted.matches[: MOST_LOOKED_AT + 1])
    if len(rows) <= MOST_LOOKED_AT:
        return set(rows), True
    also = [*wanted.surest, *(wanted.matches.order_by().filter(pk__in=numbers) for numbers in held)]
    return {*rows, *(row for some in also for row in _addresses(some[:MOST_LOOKED_AT]))}, False


def _held(user: User) -> list[QuerySet]:
    """The numbers of entities that the first of the grants are on."""
    return [table.rows().order_by().values("content_object_id")[:MOST_HELD] for table in grant_tables_of_principal(user) or ()]


def _addresses(rows: QuerySet[Entity]) -> list[Looked]:
    return list(rows.values_list("pk", "kind", "key"))


def _best(rows: Iterable[Looked], wanted: SearchQuery, most: int, is_all: bool) -> SearchResult:
    rows = set(rows)
    best = [pk for pk, _, _ in heapq.nsmallest(most, rows, key=wanted.rank)]
    entities = Entity.objects.in_bulk(best)
    return SearchResult([entities[pk] for pk in best], len(rows), is_all)


def _names(kind: str, key: str) -> list[str]:
    """What an entity is called, as `Address.name` says but at once, since thousands are asked; of a program also without its
    type."""
    depth = len(ancestor_kinds(kind))
    name = key.split(".", depth - 1)[-1] if depth > 1 else key
    return [name, name.partition(".")[2]] if kind == "program" else [name]
