"""The Explorer: the tree of entities.

Wide windows display it next to an entity; in narrow windows it is a separate page. The children of a container are grouped by
kind, unless it can contain only one kind. A level lists at most MAX_ROWS entities and links to those before and after them.
"""

from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.entities.children import visible_child_counts
from authzconsole.web.shared.entity_search import search_visible_entities
from authzconsole.web.shared.guard import address_or_404, entity_or_404
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import choice_parameter, name_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from authzconsole.web.shared.visible_entities import list_visibility_inside, visible_addresses
from entities.address import instance_address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import children_of, entities_at, entity_at
from entities.vocabulary import KINDS, child_kinds
from grants.active_generation import active_generation
from grants.authority.stewards import sees_everything_in, stewarded_condition
from grants.policies.policy import Generation

MAX_ROWS = 50
# rows before the entity at which the tree opens, so that the level also shows its neighbours
ROWS_BEFORE = 10


@dataclass(slots=True)
class Branch:
    """One row of the tree: an entity, or all children of one kind.

    of: for a row that groups the children of one kind, this kind; empty for an entity.
    url: its page; empty if the account may not open it. load_url: the URL of its children; empty if it cannot
    have any.
    count: number of children, if they were counted. inside: the rows below it, if it is expanded.
    """

    title: str
    kind: str
    address: str
    url: str
    of: str = ""
    load_url: str = ""
    state: str = ""
    count: int | None = None
    is_current: bool = False
    inside: "TreeLevel | None" = None

    @property
    def group(self) -> str:
        """The DOM id of the element that contains its children."""
        return f"in-{self.address}{'-' if self.of else ''}{self.of}"


@dataclass(slots=True)
class TreeLevel:
    """Sibling rows. earlier_url, later_url: URLs of the rows before and after them; empty at an end."""

    branches: list[Branch] = field(default_factory=list)
    earlier_url: str = ""
    later_url: str = ""


@frozen
class TreeFilter:
    """The filter of the tree by kind and state. An empty value matches everything."""

    kind: str = ""
    state: str = ""

    def can_contain_matches(self, kind: str) -> bool:
        """Return whether entities of that kind can contain matches.

        Such entities are displayed in any state.
        """
        return bool(child_kinds(kind)) and kind != self.kind

    def includes(self, kind: str) -> bool:
        """Return whether entities of that kind can match or contain matches."""
        return self.kind in ("", kind) or any(self.includes(child.name) for child in child_kinds(kind))

    @property
    def matches_everything(self) -> bool:
        return not (self.kind or self.state)

    def rows(self, rows: QuerySet[Entity], kind: str, *, sees_all: bool) -> QuerySet[Entity]:
        """Filter rows of one kind. sees_all: the account sees all children, so containers without matches are
        omitted.
        """
        rows = rows.filter(kind=kind)
        if not self.can_contain_matches(kind):
            return rows.filter(state=self.state) if self.state else rows
        if self.matches_everything or not sees_all:
            return rows
        conditions = {name: value for name, value in (("kind", self.kind), ("state", self.state)) if value}
        entities_inside = Entity.objects.filter(**{kind: OuterRef("pk")}).exclude(pk=OuterRef("pk"))
        return rows.filter(Exists(entities_inside.filter(**conditions)))

    def count(self, totals: Counter[tuple[str, str]], kind: str) -> int:
        """Return the number of matches of one kind. totals: counts by kind and state."""
        return sum(
            total
            for (row_kind, state), total in totals.items()
            if row_kind == kind and (self.state in ("", state) or self.can_contain_matches(kind))
        )


@frozen
class Tree:
    """The tree of visible entities.

    The number of queries depends on the depth of the tree, not on the number of entities.
    """

    request: HttpRequest
    generation: Generation
    tree_filter: TreeFilter = TreeFilter()

    def root(self, at: Entity) -> Branch:
        """Return the instance, expanded down to `at` and including the children of `at`."""
        first, *rest = [*at.address.ancestors, at.address]
        rows = entities_at((first, *rest))
        visible = visible_addresses(rows, self.request.user, self.generation)
        path = [rows[address] for address in rest if address in visible]
        branch = Branch(
            first.name,
            first.kind,
            str(first),
            entity_url(first) if first in visible else "",
            load_url=self._url(str(first)),
            is_current=not rest,
        )
        branch.inside = self._expanded_level(rows[first], path)
        return branch

    def inside(self, container: Entity) -> TreeLevel:
        """Return one row for each kind, or the entities if the container can contain only one kind."""
        possible_kinds = child_kinds(container.kind)
        kinds = [kind.name for kind in possible_kinds if self.tree_filter.includes(kind.name)]
        if len(possible_kinds) == 1:
            return self.entities(container, *kinds) if kinds else TreeLevel()
        totals = self._totals(container)
        counts = {kind: self._count(container, totals, kind) for kind in kinds}
        page = entity_url(container) if self._can_open(container) else ""
        return TreeLevel(
            [self._kind_branch(container, kind, count, page) for kind, count in counts.items() if count]
        )

    def entities(
        self, container: Entity, kind: str, *, after: str = "", before: str = "", around: str = ""
    ) -> TreeLevel:
        """Return children of one kind sorted by key: the first ones, those after or before a key, or those
        around a key.
        """
        rows = self._rows(container, kind)
        earlier, later, has_earlier, has_later = [], [], False, False
        if before or around:
            rows_before = rows.filter(key__lt=before or around).order_by("-key")
            earlier, has_earlier = _first_rows(rows_before, MAX_ROWS if before else ROWS_BEFORE)
        if not before:
            rows_after = (
                rows.filter(key__gt=after) if after else rows.filter(key__gte=around) if around else rows
            )
            later, has_later = _first_rows(rows_after.order_by("key"), MAX_ROWS)
        entities = [*reversed(earlier), *later]
        return TreeLevel(
            [self._entity_branch(entity) for entity in entities],
            self._url(str(container), kind, before=entities[0].key) if has_earlier else "",
            self._url(str(container), kind, after=entities[-1].key) if has_later else "",
        )

    def _expanded_level(self, container: Entity, path: list[Entity]) -> TreeLevel:
        """Return the children of the container, expanded along the path."""
        below = path[0] if path else None
        if len(child_kinds(container.kind)) == 1:
            only_kind = child_kinds(container.kind)[0].name
            level = level_below = self.entities(container, only_kind, around=below.key if below else "")
        else:
            level = self.inside(container)
            # without a path, expand the only kind, or else the namespaces
            default_kind = level.branches[0].of if len(level.branches) == 1 else "namespace"
            kind = below.kind if below else default_kind
            level_below = None
            kind_branch = next((branch for branch in level.branches if branch.of == kind), None)
            if kind_branch is not None:
                kind_branch.inside = level_below = self.entities(
                    container, kind, around=below.key if below else ""
                )
        if below is not None and level_below is not None:
            self._expand(level_below, path)
        return level

    def _expand(self, level_below: TreeLevel, path: list[Entity]) -> None:
        below, *rest = path
        branch = next((branch for branch in level_below.branches if branch.address == str(below)), None)
        if branch is None:
            return
        branch.is_current = not rest
        if child_kinds(below.kind):
            branch.inside = self._expanded_level(below, rest)

    def _kind_branch(self, container: Entity, kind: str, count: int, page: str) -> Branch:
        return Branch(
            KINDS[kind].plural,
            kind,
            str(container),
            page and f"{page}?{urlencode({'kind': kind})}",
            of=kind,
            load_url=self._url(str(container), kind),
            count=count,
        )

    def _can_open(self, container: Entity) -> bool:
        # the tree contains the instance even if the account cannot see it; all other containers in the tree
        # are visible
        return container.kind != "instance" or container.address in visible_addresses(
            {container.address: container}, self.request.user, self.generation
        )

    def _entity_branch(self, entity: Entity) -> Branch:
        load_url = self._url(str(entity)) if child_kinds(entity.kind) else ""
        return Branch(
            entity.name, entity.kind, str(entity), entity_url(entity), load_url=load_url, state=entity.state
        )

    def _url(self, address: str, of: str = "", **cursors: str) -> str:
        parameters = {
            "in": address,
            "of": of,
            "kind": self.tree_filter.kind,
            "state": self.tree_filter.state,
            **cursors,
        }
        return url_with_query("explorer-inside", parameters)

    def _totals(self, container: Entity) -> Counter[tuple[str, str]]:
        return visible_child_counts(self.request, container, self.generation)

    def _count(self, container: Entity, totals: Counter[tuple[str, str]], kind: str) -> int:
        total = self.tree_filter.count(totals, kind)
        is_known = (
            self.tree_filter.matches_everything
            or not self.tree_filter.can_contain_matches(kind)
            or not sees_everything_in(self.request.user, container)
        )
        return total if is_known or not total else self._rows(container, kind).count()

    def _rows(self, container: Entity, kind: str) -> QuerySet[Entity]:
        sees_all = sees_everything_in(self.request.user, container)
        rows = self.tree_filter.rows(children_of(container), kind, sees_all=sees_all)
        if sees_all:
            return rows
        visibility = list_visibility_inside(self.request, container, self.generation)
        total = sum(total for (row_kind, _), total in self._totals(container).items() if row_kind == kind)
        return rows.filter(visibility.fastest_condition(total) | stewarded_condition(self.request.user))


def _first_rows(rows: QuerySet[Entity], max_rows: int) -> tuple[list[Entity], bool]:
    """Return at most `max_rows` rows, and whether there are more."""
    first_rows = list(rows[: max_rows + 1])
    return first_rows[:max_rows], len(first_rows) > max_rows


@require_safe
def explorer(request: HttpRequest) -> HttpResponse:
    """Render the tree, expanded down to the entity in the query parameter `at`, or to the best match of the text in
    `find`.
    """
    at, tree, find = (
        _container(request, "at"),
        _tree(request),
        text_parameter(request, "find", max_characters=200),
    )
    found = search_visible_entities(request.user, find, 1).rows if find else []
    at = found[0] if found else at
    is_section, root = requested_section(request) == "explorer", tree.root(at)
    return render_page(
        request,
        "explorer/_tree.html" if is_section else "explorer/page.html",
        {
            "tree": TreeLevel([root]),
            "at": at,
            "find": find,
            "is_found": bool(found),
            # the tree contains the instance even if the account cannot open it
            "detail_url": root.url if at.kind == "instance" else entity_url(at),
            "tree_filter": tree.tree_filter,
            "is_page": not is_section or _is_page(request),
            "kinds": [kind for kind in KINDS.values() if kind.parent],
            "states": State.values,
            "url": request.path,
        },
    )


@require_safe
def explorer_inside(request: HttpRequest) -> HttpResponse:
    """Render the children of an entity, of one kind or of all kinds, as tree rows that htmx inserts."""
    container, tree, kind = _container(request, "in"), _tree(request), choice_parameter(request, "of", KINDS)
    cursors = {name: name_parameter(request, name) for name in ("after", "before")}
    level = tree.entities(container, kind, **cursors) if kind else tree.inside(container)
    return render_page(request, "explorer/_level.html", {"level": level})


def _is_page(request: HttpRequest) -> bool:
    """Return whether htmx reloads the tree on the Explorer page.

    Only the URL of this page contains the filter.
    """
    return (request.htmx.current_url_abs_path or "").partition("?")[0] == request.path


def _tree(request: HttpRequest) -> Tree:
    tree_filter = TreeFilter(
        choice_parameter(request, "kind", KINDS), choice_parameter(request, "state", State.values)
    )
    return Tree(request, active_generation(), tree_filter)


def _container(request: HttpRequest, name: str) -> Entity:
    """Return the entity in the URL, by default the instance.

    The instance is never 404: for an account without visible entities its tree is empty.
    """
    address = address_or_404(text_parameter(request, name) or str(instance_address()))
    root = entity_at(address) if address == instance_address() else None
    return root or entity_or_404(request, str(address))
