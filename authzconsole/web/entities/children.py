"""The children of an entity: filtered by kind, state and name, one page at a time."""

from collections import Counter

from django.db.models import Count, F, QuerySet, Value
from django.db.models.functions import Length, Substr
from django.http import HttpRequest

from authzconsole.web.shared.entity_counts import holder_counts
from authzconsole.web.shared.links import address_link_to
from authzconsole.web.shared.paging import paginate_entities, url_with
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.privilege_cells import held_privileges, privilege_cells
from authzconsole.web.shared.request_visibility import list_visibility_inside
from entities.models import Entity, State
from entities.selectors import children_of
from entities.vocabulary import KINDS, child_kinds
from grants.evaluation.count_cache import cached_count
from grants.evaluation.visibility import FULL_VISIBILITY, Visibility
from grants.policies.policy import Generation

ROWS_A_PAGE = 25
# the instance shows its namespaces first; in alphabetical order they would come last
USUAL_KIND = {"instance": "namespace"}
ALL_KINDS = "all"
PARAMETERS = ("kind", "state", "find", "after", "before")


def children_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the context of the section; None for a kind without children."""
    if not child_kinds(entity.kind):
        return None
    counts = visible_child_counts(request, entity, generation)
    totals = [(*kind_and_state, total) for kind_and_state, total in counts.items()]
    rows, visibility = children_of(entity), FULL_VISIBILITY
    if not request.user.can_see_all:
        visibility = list_visibility_inside(request, entity, generation)
        # without visible children of a kind, do not scan all its rows for the first visible one
        rows = rows.filter(kind__in={kind for kind, _ in counts})
    usual = USUAL_KIND.get(entity.kind, "")
    kind = choice_parameter(request, "kind", KINDS) if "kind" in request.GET else usual
    state = choice_parameter(request, "state", State.values)
    find = text_parameter(request, "find", max_characters=200)
    page = _children_page(request, entity, rows, visibility, totals, kind, state, find)
    return {
        "page": page, "rows": _rows(request, page.rows), "total": sum(total for *_, total in totals), "find": find,
        "kind": kind or (ALL_KINDS if usual else ""), "state": state,
        "kinds": _kind_chips(request, totals, kind, state, usual), "states": _state_counts(totals, kind),
        "is_filtered": bool(kind != usual or state or find), "reset_url": url_with(request, **dict.fromkeys(PARAMETERS)),
    }


def visible_child_counts(request: HttpRequest, entity: Entity, generation: Generation) -> Counter[tuple[str, str]]:
    """Count the visible children by kind and state. Runs at most four queries."""
    if request.user.can_see_all:
        return cached_count(f"children-{entity.pk}", lambda: _child_counts(entity))
    kinds = {kind.name for kind in child_kinds(entity.kind)}
    visibility = list_visibility_inside(request, entity, generation)
    return Counter({key: total for key, total in visibility.counts.items() if key[0] in kinds})


def _child_counts(entity: Entity) -> Counter[tuple[str, str]]:
    counted = _countable_children(entity).values_list("kind", "state").annotate(total=Count("*"))
    return Counter({(kind, state): total for kind, state, total in counted})


def _countable_children(entity: Entity) -> QuerySet[Entity]:
    """Return the children with the conditions of the index that covers kind and state."""
    if entity.kind != "namespace":
        return Entity.objects.filter(parent=entity).order_by()
    return Entity.objects.filter(namespace=entity, kind__in=[kind.name for kind in child_kinds("namespace")]).order_by()


def _children_page(request, entity: Entity, rows: QuerySet, visibility: Visibility, totals: list, kind: str, state: str,
                   find: str):
    if kind:
        rows = rows.filter(kind=kind)
    if state:
        rows = rows.filter(state=state)
    total = sum(n for k, s, n in totals if kind in ("", k) and state in ("", s))
    if find:
        rows = _filter_by_name(rows, entity, find)
        total = rows.filter(visibility.all_rows).count()
    return paginate_entities(request, rows.filter(visibility.soonest(total)), max_rows=ROWS_A_PAGE, total_rows=total)


def _filter_by_name(rows: QuerySet, entity: Entity, find: str) -> QuerySet:
    """Filter by the own name of a child: the part of its key after the key of the parent."""
    if entity.kind == "instance":
        return rows.filter(key__icontains=find)
    beginning = Length(Value(entity.key)) + 2
    return rows.annotate(own_name=Substr(F("key"), beginning)).filter(own_name__icontains=find)


def _rows(request, entities: list[Entity]) -> list[dict]:
    ids = [entity.pk for entity in entities]
    if request.user.can_see_all:
        principals = holder_counts("id", ids)
        return [{"address_link": address_link_to(e), "entity": e,
                 "principals": sum(principals.get(e.pk, {}).values())} for e in entities]
    held = held_privileges(request.user, ids)
    return [{"address_link": address_link_to(e), "entity": e, "cells": privilege_cells(held[e.pk], e.state)} for e in entities]


def _kind_chips(request, totals: list, kind: str, state: str, usual: str) -> list[dict]:
    """Return the filter chips. `parameter` is the value of `kind` in the URL. usual: the kind shown if the URL names none."""
    by_kind: dict[str, int] = {}
    for name, row_state, total in totals:
        if state in ("", row_state):
            by_kind[name] = by_kind.get(name, 0) + total
    chips = [{"kind": "", "parameter": ALL_KINDS if usual else "", "title": "All", "total": sum(by_kind.values())}]
    chips += [{"kind": name, "parameter": name, "title": KINDS[name].plural, "total": by_kind[name]}
              for name in KINDS if name in by_kind]
    return [{**chip, "url": url_with(request, kind=chip["parameter"], after=None, before=None),
             "is_current": chip["kind"] == kind} for chip in chips]


def _state_counts(totals: list, kind: str) -> list[tuple[str, int]]:
    return [(value, sum(n for k, s, n in totals if s == value and kind in ("", k))) for value in State.values]
