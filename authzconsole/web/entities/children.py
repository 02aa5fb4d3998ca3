"""The section with the children of an entity, filtered by kind, state and name, one page at a time."""

from collections import Counter
from collections.abc import Collection

from django.db.models import Count, F, QuerySet, Value
from django.db.models.functions import Length, Substr
from django.http import HttpRequest

from authzconsole.web.shared.entity_counts import holder_counts
from authzconsole.web.shared.paging import ADDRESS_ORDER, Page, keyset_page
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.privilege_cells import privilege_cells
from authzconsole.web.shared.visible_entities import list_visibility_inside
from entities.address import address_or_none
from entities.models import Entity, State
from entities.selectors import children_of
from entities.vocabulary import KINDS, child_kinds
from grants.authority.stewards import sees_everything_in, stewarded_condition, stewarded_namespaces
from grants.evaluation.count_cache import cached_count
from grants.evaluation.visibility import FULL_VISIBILITY
from grants.plans.sources.bulk import MAX_SELECTED
from grants.policies.policy import Generation

# parameters that have a form field or select the page
FORM_PARAMETERS = ("address", "kind", "state", "find", "after", "before", "selection")


def selection_of(request: HttpRequest, page: Page) -> dict:
    """Return the selected addresses.

    on_other_pages: selected addresses that are not on this page. other_parameters: query parameters without a
    form field. previous, next: cursors of the adjacent pages; None at an end of the list.
    """
    selected, on_page = _selected_addresses(request), {str(entity) for entity in page.rows}
    return {
        "selected": selected,
        "on_other_pages": [address for address in selected if address not in on_page],
        "other_parameters": [
            (name, value)
            for name, values in request.GET.lists()
            if name not in FORM_PARAMETERS
            for value in values
        ],
        "previous": page.rows[0] if page.previous_url else None,
        "next": page.rows[-1] if page.next_url else None,
    }


def _selected_addresses(request: HttpRequest) -> list[str]:
    """Return the valid selected addresses in the order of selection, at most as many as a plan accepts."""
    addresses = filter(None, map(address_or_none, request.GET.getlist("address")))
    return list(dict.fromkeys(map(str, addresses)))[:MAX_SELECTED]


ROWS_PER_PAGE = 25
# the kind of children that a container displays by default, by kind of container; other containers display
# all kinds
DEFAULT_KIND = {"instance": "namespace"}
ALL_KINDS = "all"


def children_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the context of the section; None for a kind without children."""
    if not child_kinds(entity.kind):
        return None
    counts = visible_child_counts(request, entity, generation)
    rows, visibility = children_of(entity), FULL_VISIBILITY
    if not sees_everything_in(request.user, entity):
        visibility = list_visibility_inside(request, entity, generation)
        # skip the kinds without visible children; finding that out again would scan all rows of the kind
        rows = rows.filter(kind__in={kind for kind, _ in counts})
    default_kind = DEFAULT_KIND.get(entity.kind, "")
    kind = choice_parameter(request, "kind", KINDS) if "kind" in request.GET else default_kind
    state = choice_parameter(request, "state", State.values)
    find = text_parameter(request, "find", max_characters=200)
    rows = rows.filter(**{name: value for name, value in (("kind", kind), ("state", state)) if value})
    total = _total(counts, kind, state)
    if find:
        rows = _filter_by_name(rows, entity, find)
        total = rows.filter(visibility.all_rows).count()
    rows = rows.filter(visibility.fastest_condition(total))
    page = keyset_page(request, rows, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, total=total)
    selection = selection_of(request, page) if request.user.can_administer else None
    return {
        "page": page,
        "rows": _rows(request, page.rows, selection["selected"] if selection else ()),
        "selection": selection,
        "total": counts.total(),
        "find": find,
        "kind": kind or (ALL_KINDS if default_kind else ""),
        "state": state,
        "kinds": _kind_chips(counts, kind, state, default_kind),
        "states": [(name, _total(counts, kind, name)) for name in State.values],
        "is_filtered": bool(kind != default_kind or state or find),
    }


def visible_child_counts(
    request: HttpRequest, entity: Entity, generation: Generation
) -> Counter[tuple[str, str]]:
    """Return the number of visible children by (kind, state). Runs at most four queries."""
    if sees_everything_in(request.user, entity):
        return cached_count(f"children-{entity.pk}", lambda: _counts(_countable_children(entity)), at=None)
    kinds = {kind.name for kind in child_kinds(entity.kind)}
    visibility = list_visibility_inside(request, entity, generation)
    if entity.kind == "instance" and stewarded_namespaces(request.user):
        return _counts(
            _countable_children(entity).filter(visibility.all_rows | stewarded_condition(request.user))
        )
    return Counter({key: total for key, total in visibility.counts.items() if key[0] in kinds})


def _counts(rows: QuerySet[Entity]) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (kind, state): total
            for kind, state, total in rows.values_list("kind", "state").annotate(total=Count("*"))
        }
    )


def _countable_children(entity: Entity) -> QuerySet[Entity]:
    """Return the children, with a condition that lets an index on kind and state answer the count alone."""
    if entity.kind != "namespace":
        return Entity.objects.filter(parent=entity).order_by()
    return Entity.objects.filter(
        namespace=entity, kind__in=[kind.name for kind in child_kinds("namespace")]
    ).order_by()


def _filter_by_name(rows: QuerySet, entity: Entity, find: str) -> QuerySet:
    """Filter by the part of the key that follows the key of the parent."""
    if entity.kind == "instance":
        return rows.filter(key__icontains=find)
    name_start = Length(Value(entity.key)) + 2
    return rows.annotate(own_name=Substr(F("key"), name_start)).filter(own_name__icontains=find)


def _rows(request: HttpRequest, entities: list[Entity], selected: Collection[str]) -> list[dict]:
    if request.user.can_see_all:
        counts = holder_counts("id", [entity.pk for entity in entities])
        return [
            {
                "entity": entity,
                "total_holders": sum(counts.get(entity.pk, {}).values()),
                "is_selected": str(entity) in selected,
            }
            for entity in entities
        ]
    cells = privilege_cells(request.user, entities)
    return [{"entity": entity, "cells": cells[entity.pk]} for entity in entities]


def _total(counts: Counter[tuple[str, str]], kind: str, state: str) -> int:
    """Return the number of children of a kind and a state; an empty text means any."""
    return sum(
        total
        for (row_kind, row_state), total in counts.items()
        if kind in ("", row_kind) and state in ("", row_state)
    )


def _kind_chips(counts: Counter[tuple[str, str]], kind: str, state: str, default_kind: str) -> list[dict]:
    """Return the links that filter by kind. parameter: the value of the URL parameter `kind`."""
    titles = {"": "All"} | {name: kind.plural for name, kind in KINDS.items()}
    return [
        {
            "parameter": name or (ALL_KINDS if default_kind else ""),
            "kind": name,
            "title": title,
            "total": total,
            "is_current": name == kind,
        }
        for name, title in titles.items()
        if (total := _total(counts, name, state)) or not name
    ]
