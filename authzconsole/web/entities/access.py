"""The section with the people who can access an entity, or the contents of a container, and the paths by
which they can.

The totals of a container with many entities are a section of their own, which htmx loads after the page.
"""

from django.db.models import Count
from django.http import HttpRequest

from authzconsole.lists.access import WhoCan
from authzconsole.lists.files import download_links
from authzconsole.web.shared.access_ways import patterns_by_path, way_rows
from authzconsole.web.shared.paging import Page, url_with, url_with_query
from authzconsole.web.shared.parameters import choice_parameter, name_parameter, text_parameter
from authzconsole.web.shared.past import past_moment_of
from entities.address import address_or_none
from entities.models import Entity
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege
from grants.access import (
    PATH_KINDS,
    AccessList,
    PeopleWithAccess,
    Position,
    Target,
    operations_by_requirement,
)
from grants.authority.stewards import sees_everything_in
from grants.policies.levels import LEVELS, required_level
from grants.policies.policy import Generation
from grants.policies.wording import requirement_in_words

ROWS_PER_PAGE = 20
MAX_GROUPS = 10
PATHS = {"direct": "Direct grants", "group": "Through groups"}
CONTENTS, COUNT = "contents", "count"
# the query parameters of the section; they select the tab
PARAMETERS = (
    "who",
    "can",
    "level",
    "holding",
    "via",
    "path",
    "order-by",
    CONTENTS,
    "of",
    "who-after",
    "who-at",
)
FIRST_PAGE = {"who-after": None, "who-at": None}


def access_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the context of the section; None for accounts that may not learn what others can do."""
    if not sees_everything_in(request.user, entity):
        return None
    filters = _filters(request, entity)
    access = _access_list(request, generation, filters)
    target = access.target
    position = _position(request)
    people = access.people(entity.address)
    is_first = position is None and not target.has_contents
    is_counted = is_first and (people.is_counted_at_once or COUNT in request.GET)
    page = access.page(position, ROWS_PER_PAGE, people)
    is_linked = request.user.can_see_all
    is_known = is_linked and not past_moment_of(request)
    patterns = patterns_by_path(user.ways for _, user in page.rows) if is_known else {}
    rows = [
        {
            "user": f"user:{user.user}",
            "ways": way_rows(
                user.ways, address, generation, access.where.operation, patterns, is_linked=is_linked
            ),
            "entity": address,
        }
        for address, user in page.rows
    ]
    context = {
        "form": {name: name_parameter(request, name) for name in PARAMETERS},
        "target": target,
        "page": Page(
            rows,
            f"{len(rows):,} on this page",
            len(rows),
            url_with(request, **FIRST_PAGE) if position else "",
            _next_url(request, page.next_position),
        ),
        "is_filtered": any(
            filters[name] for name in ("operation", "level", "privilege", "q", "group", "path")
        ),
        "is_descending": access.is_descending,
        "next_order": None if access.is_descending else "-name",
        "levels": LEVELS,
        "operations": _operations(entity, target),
        "privileges": list(Privilege),
        "path_kinds": PATHS,
        "kinds": sorted(KINDS) if target.has_contents else [],
        "is_container": entity.kind in CONTAINER_KINDS,
        "is_plain": not is_linked,
        "downloads": _downloads(request, filters),
    }
    if target.has_contents:
        return context | {"entity_total": target.count()}
    summary = _summary(request, people, entity, generation) if is_counted else None
    return context | {
        "summary": summary,
        "is_uncounted": not summary and position is None,
        "is_counted_later": is_first and summary is None and people.is_quickly_counted,
    }


def totals_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the context of the section with the totals; None for accounts that may not learn what others can
    do.
    """
    if not sees_everything_in(request.user, entity):
        return None
    access = _access_list(request, generation, _filters(request, entity))
    return _summary(request, access.people(entity.address), entity, generation)


def _summary(request: HttpRequest, people: PeopleWithAccess, entity: Entity, generation: Generation) -> dict:
    counts = people.counts()
    return {
        "people_total": counts.total,
        "levels": [
            {
                "level": level,
                "total": total,
                "verb": level if total == 1 else level.infinitive,
                "partial": counts.partial[level],
            }
            for level, total in counts.by_level.items()
            if total
        ],
        "totals": _totals(counts.by_operation, entity, generation),
        # the first groups that give their members access
        "groups": list(
            people.groups()
            .order_by("name")
            .annotate(members=Count("belongings__user", distinct=True))[: MAX_GROUPS + 1]
        ),
        "max_groups": MAX_GROUPS,
        "is_plain": not request.user.can_see_all,
    }


def _filters(request: HttpRequest, entity: Entity) -> dict:
    """Return the filters in the URL, by their names in REST."""
    # no operation has the instance as its target
    has_contents = entity.kind in CONTAINER_KINDS and (CONTENTS in request.GET or entity.kind == "instance")
    return {
        "entity": entity.address,
        "contents": has_contents,
        "kind": choice_parameter(request, "of", KINDS) if has_contents else "",
        "operation": choice_parameter(
            request, "can", {*Privilege, *(name for kind in KINDS.values() for name in kind.operations)}
        ),
        "level": choice_parameter(request, "level", list(map(str, LEVELS))),
        "privilege": choice_parameter(request, "holding", list(map(str, Privilege))),
        "q": text_parameter(request, "who", max_characters=150),
        "group": name_parameter(request, "via"),
        "path": choice_parameter(request, "path", PATH_KINDS),
    }


def _access_list(request: HttpRequest, generation: Generation, filters: dict) -> AccessList:
    order = "-user" if choice_parameter(request, "order-by", ("-name",)) else ""
    return WhoCan(request.user, filters | {"generation": generation.name, "sort": order}).access


def _position(request: HttpRequest) -> Position | None:
    """Return the position after which the page starts, from the parameters `who-at` (entity) and `who-after`
    (user).
    """
    address = address_or_none(request.GET.get("who-at", ""))
    return (address.kind, address.key, name_parameter(request, "who-after") or None) if address else None


def _next_url(request: HttpRequest, position: Position | None) -> str:
    if position is None:
        return ""
    return url_with(request, **{"who-at": f"{position[0]}:{position[1]}", "who-after": position[2]})


def _operations(entity: Entity, target: Target) -> list[str]:
    if not target.has_contents:
        return list(KINDS[entity.kind].operations)
    kinds = [KINDS[target.kind]] if target.kind else KINDS.values()
    return sorted({operation for kind in kinds for operation in kind.operations})


def _totals(counts: dict[str, int], entity: Entity, generation: Generation) -> list[dict]:
    """Return a row for each rule, the strongest level and most permitted people first."""
    grouped = operations_by_requirement(generation, entity.kind)
    totals = [
        {
            "level": required_level(requirement),
            "operations": operations,
            "rule": requirement_in_words(requirement),
            "total": counts[operations[0]],
        }
        for requirement, operations in grouped.items()
        if operations[0] in counts
    ]
    return sorted(totals, key=lambda row: (LEVELS.index(row["level"]), -row["total"]))


def _downloads(request: HttpRequest, filters: dict) -> list[tuple[str, str]]:
    contents = "true" if filters["contents"] else ""
    query = filters | {"contents": contents, "as_of": past_moment_of(request)}
    return download_links(WhoCan, lambda extension: url_with_query(f"who_can_{extension}", query))
