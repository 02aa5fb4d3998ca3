"""The hierarchy as lines of a tree: what lies in a container, by kind where several kinds do, a window of many at a time."""

from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest

from authzconsole.web.entities.children import totals_inside
from authzconsole.web.shared.breadcrumbs import visible_addresses
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.request_visibility import list_visibility_inside
from entities.models import Entity
from entities.selectors import children_of, entities_at
from entities.vocabulary import KINDS, child_kinds
from grants.policies.policy import Generation

MOST_ROWS = 50
# so many stand before the one that the tree was opened at, so that it is met among its neighbours
BEFORE_IT = 10


@dataclass(slots=True)
class Branch:
    """One line. of: the kind of which it holds all; empty for an entity. url: its page, empty where this account may not look.
    load_url: where what lies in it comes from, empty where nothing can. count: how many lie in it, where they were counted.
    inside: the lines in it, where it is open."""

    title: str
    kind: str
    address: str
    url: str
    of: str = ""
    load_url: str = ""
    state: str = ""
    count: int | None = None
    is_current: bool = False
    inside: "Level | None" = None

    @property
    def group(self) -> str:
        """The id of the element that holds what lies in it."""
        return f"in-{self.address}{'-' if self.of else ''}{self.of}"


@dataclass(slots=True)
class Level:
    """Lines that lie together. earlier_url, later_url: where those before and after them come from; empty at the end."""

    branches: list[Branch] = field(default_factory=list)
    earlier_url: str = ""
    later_url: str = ""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is wanted of the hierarchy: one kind, of one state; everything where they are empty."""

    kind: str = ""
    state: str = ""

    def leads_on(self, kind: str) -> bool:
        """Whether what is wanted may lie in entities of that kind, which are then shown in any state."""
        return bool(child_kinds(kind)) and kind != self.kind

    def shows(self, kind: str) -> bool:
        return self.kind in ("", kind) or any(self.shows(below.name) for below in child_kinds(kind))

    @property
    def is_whole(self) -> bool:
        return not (self.kind or self.state)

    def rows(self, rows: QuerySet[Entity], kind: str, *, sees_all: bool) -> QuerySet[Entity]:
        """sees_all: whether nothing of what lies in a container is kept from the account; then those in which nothing is wanted
        are left out."""
        rows = rows.filter(kind=kind)
        if not self.leads_on(kind):
            return rows.filter(state=self.state) if self.state else rows
        if self.is_whole or not sees_all:
            return rows
        wanted = {name: value for name, value in (("kind", self.kind), ("state", self.state)) if value}
        return rows.filter(Exists(Entity.objects.filter(**wanted, **{kind: OuterRef("pk")}).exclude(pk=OuterRef("pk"))))

    def count(self, totals: Counter[tuple[str, str]], kind: str) -> int:
        """totals: by kind and state."""
        return sum(total for (of, state), total in totals.items()
                   if of == kind and (self.state in ("", state) or self.leads_on(kind)))


@dataclass(frozen=True, slots=True)
class Tree:
    """What the account of the request sees of the hierarchy. Its queries go by the depth, not by what lies there."""

    request: HttpRequest
    generation: Generation
    narrowing: Narrowing = Narrowing()

    def root(self, at: Entity) -> Branch:
        """The instance, open down to `at`, and `at` itself."""
        first, *rest = [*at.address.ancestors, at.address]
        rows = entities_at((first, *rest))
        shown = visible_addresses(rows, self.request.user, self.generation)
        path = [rows[address] for address in rest if address in shown]
        branch = Branch(first.name, first.kind, str(first), entity_url(first) if first in shown else "",
                        load_url=self._url(str(first)), is_current=not rest)
        branch.inside = self._opened(rows[first], path)
        return branch

    def inside(self, container: Entity) -> Level:
        """A line for each kind; where only one kind can lie in it, its entities."""
        possible = child_kinds(container.kind)
        kinds = [kind.name for kind in possible if self.narrowing.shows(kind.name)]
        if len(possible) == 1:
            return self.entities(container, *kinds) if kinds else Level()
        totals = self._totals(container)
        counts = {kind: self._count(container, totals, kind) for kind in kinds}
        page = entity_url(container) if self._may_look_at(container) else ""
        return Level([self._of_kind(container, kind, count, page) for kind, count in counts.items() if count])

    def entities(self, container: Entity, kind: str, *, after: str = "", before: str = "", around: str = "") -> Level:
        """Those of a kind in it by their keys: the first of them, those after or before a key, or those around one."""
        rows = self._rows(container, kind)
        earlier, later, has_earlier, has_later = [], [], False, False
        if before or around:
            found = rows.filter(key__lt=before or around).order_by("-key")
            earlier, has_earlier = _first(found, MOST_ROWS if before else BEFORE_IT)
        if not before:
            found = rows.filter(key__gt=after) if after else rows.filter(key__gte=around) if around else rows
            later, has_later = _first(found.order_by("key"), MOST_ROWS)
        found = [*reversed(earlier), *later]
        return Level([self._of_entity(entity) for entity in found],
                     self._url(str(container), kind, before=found[0].key) if has_earlier else "",
                     self._url(str(container), kind, after=found[-1].key) if has_later else "")

    def _opened(self, container: Entity, path: list[Entity]) -> Level:
        """What lies in it, open along the path of entities that lie in one another."""
        below = path[0] if path else None
        if len(child_kinds(container.kind)) == 1:
            level = lines = self.entities(container, child_kinds(container.kind)[0].name, around=below.key if below else "")
        else:
            level = self.inside(container)
            # nobody comes for the line that says namespaces, nor for one that stands alone
            usual = level.branches[0].of if len(level.branches) == 1 else "namespace"
            kind = below.kind if below else usual
            lines = next((branch for branch in level.branches if branch.of == kind), None)
            if lines is not None:
                lines.inside = lines = self.entities(container, kind, around=below.key if below else "")
        if below is not None and lines is not None:
            self._open(lines, path)
        return level

    def _open(self, lines: Level, path: list[Entity]) -> None:
        below, *rest = path
        branch = next((branch for branch in lines.branches if branch.address == str(below)), None)
        if branch is None:
            return
        branch.is_current = not rest
        if child_kinds(below.kind):
            branch.inside = self._opened(below, rest)

    def _of_kind(self, container: Entity, kind: str, count: int, page: str) -> Branch:
        return Branch(KINDS[kind].plural, kind, str(container), page and f"{page}?{urlencode({'kind': kind})}", of=kind,
                      load_url=self._url(str(container), kind), count=count)

    def _may_look_at(self, container: Entity) -> bool:
        # the tree stands on the instance also for whoever sees only something in it; all else was seen to be opened
        return container.kind != "instance" or container.address in visible_addresses(
            {container.address: container}, self.request.user, self.generation)

    def _of_entity(self, entity: Entity) -> Branch:
        load_url = self._url(str(entity)) if child_kinds(entity.kind) else ""
        return Branch(entity.name, entity.kind, str(entity), entity_url(entity), load_url=load_url, state=entity.state)

    def _url(self, address: str, of: str = "", **beyond: str) -> str:
        asked = {"in": address, "of": of, "kind": self.narrowing.kind, "state": self.narrowing.state, **beyond}
        return url_with_query("explorer-inside", asked)

    def _totals(self, container: Entity) -> Counter[tuple[str, str]]:
        return totals_inside(self.request, container, self.generation)

    def _count(self, container: Entity, totals: Counter[tuple[str, str]], kind: str) -> int:
        total = self.narrowing.count(totals, kind)
        is_counted = self.narrowing.is_whole or not self.narrowing.leads_on(kind) or not self.request.user.can_see_all
        return total if is_counted or not total else self._rows(container, kind).count()

    def _rows(self, container: Entity, kind: str) -> QuerySet[Entity]:
        rows = self.narrowing.rows(children_of(container), kind, sees_all=self.request.user.can_see_all)
        if self.request.user.can_see_all:
            return rows
        seen = list_visibility_inside(self.request, container, self.generation)
        total = sum(total for (of, _), total in self._totals(container).items() if of == kind)
        return rows.filter(seen.soonest(total))


def _first(rows: QuerySet[Entity], most: int) -> tuple[list[Entity], bool]:
    """So many, and whether there are more."""
    found = list(rows[: most + 1])
    return found[:most], len(found) > most
