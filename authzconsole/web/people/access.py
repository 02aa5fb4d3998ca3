"""The section with the effective access of a user or group: entities, operations, and the paths by which they
are permitted.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from django.http import HttpRequest

from authzconsole.common.limited_access import counted_rows
from authzconsole.lists.access import WhatCan
from authzconsole.lists.files import download_links
from authzconsole.web.people.profile import Profile
from authzconsole.web.shared.access_ways import patterns_by_path, way_rows
from authzconsole.web.shared.levels import capped_quantity, level_sentences, level_table
from authzconsole.web.shared.paging import Page, url_with, url_with_query
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.past import past_moment_of
from entities.address import Address, address_or_none, parse_address
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import KINDS, Privilege, join_words
from grants.access import MAX_COUNTED, AccessibleEntities, EntityAccess, EntityFilter, Path
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import visibility_condition
from grants.plans.sources.expired import PeriodScope
from grants.policies.levels import LEVELS, LevelCount
from grants.principal_names import parse_principal

ROWS_PER_PAGE = 10
COUNT = "count"


def effective_access_section(request: HttpRequest, profile: Profile) -> dict:
    """Return the context of the section. On its own page, an account lists only entities that it sees or has grants on."""
    where, is_own = _filter(request), profile.is_own
    entities = AccessibleEntities.of(
        *parse_principal(profile.address),
        profile.generation,
        where,
        visible_in=active_generation() if is_own else None,
    )
    after = address_or_none(request.GET.get("what-after", ""))
    page = entities.page(after, ROWS_PER_PAGE)
    linked = _visible(page.rows, profile) if is_own else None
    patterns = {} if past_moment_of(request) else patterns_by_path(row.ways for row in page.rows)
    is_all = not page.has_more and after is None
    is_counted = is_all or entities.is_counted_at_once or COUNT in request.GET
    if is_all:
        counts = Counter(row.address.kind for row in page.rows)
        levels = entities.level_counts_of_rows(page.rows)
    else:
        counts = entities.counts(MAX_COUNTED if entities.is_quickly_counted else None) if is_counted else {}
        levels = entities.level_counts(counts)
    return {
        "rows": [_row(row, entities, linked, patterns) for row in page.rows],
        "page": Page(
            page.rows,
            f"{len(page.rows):,} on this page",
            len(page.rows),
            url_with(request, **{"what-after": None}) if after else "",
            url_with(request, **{"what-after": page.rows[-1].address}) if page.has_more else "",
        ),
        "where": where,
        "is_filtered": where != EntityFilter(),
        "kinds": [(kind.name, kind.plural) for kind in KINDS.values() if kind.operations],
        "operations": _operations(where.kind),
        "privileges": list(Privilege),
        "counts": counts if is_counted else None,
        "is_counted_later": not is_counted and entities.is_quickly_counted,
        "sentences": _sentences(counts, levels, is_own=is_own) if is_counted else [],
        "table": level_table(levels),
        "levels": LEVELS,
        "downloads": _downloads(request, profile.address, where),
        "later": None if past_moment_of(request) else _later_access(profile),
    }


def _later_access(profile: Profile) -> dict:
    """Return the number of grants and memberships that begin later, capped, and the URL of their list; no URL on the page of
    the account itself. Runs one query.
    """
    query = {"show": "future", "principal": profile.address}
    return {
        "total": counted_rows("future", PeriodScope(profile.address)),
        "url": "" if profile.is_own else url_with_query("limited-access", query),
    }


def _filter(request: HttpRequest) -> EntityFilter:
    return EntityFilter(
        text=text_parameter(request, "what", max_characters=200),
        kind=choice_parameter(request, "of", KINDS),
        namespace=text_parameter(request, "namespace", max_characters=200),
        privilege=choice_parameter(request, "holding", list(map(str, Privilege))),
        level=choice_parameter(request, "level", list(map(str, LEVELS))),
        operation=choice_parameter(
            request, "may", {name for kind in KINDS.values() for name in kind.operations}
        ),
    )


def _operations(kind: str) -> list[str]:
    """Return the operations of a kind, or those of all kinds, sorted."""
    return sorted({name for known in KINDS.values() if kind in ("", known.name) for name in known.operations})


def _visible(rows: list[EntityAccess], profile: Profile) -> Collection[Address]:
    """Return the addresses of rows and paths that the principal can see. Runs one query."""
    addresses = {row.address for row in rows}
    addresses |= {
        parse_address(path.entity) for row in rows for ways in row.ways.values() for path in ways.listed_paths
    }
    is_visible = visibility_condition(profile.principal, profile.generation, row_by_row=True)
    return entities_at(addresses, Entity.objects.filter(is_visible))


def _row(
    row: EntityAccess,
    entities: AccessibleEntities,
    linked: Collection[Address] | None,
    patterns: Mapping[Path, str],
) -> dict:
    is_linked = linked is None or row.address in linked
    return {
        "entity": row.address,
        "is_linked": is_linked,
        "ways": way_rows(
            row.ways,
            row.address,
            entities.generation,
            entities.where.operation,
            patterns,
            is_linked=linked is None,
        ),
    }


def _sentences(counts: Mapping[str, int], levels: Sequence[LevelCount], *, is_own: bool) -> list[str]:
    """Return what the principal can do, in words."""
    if not counts:
        return ["You have no access to data yet."] if is_own else []
    found = join_words([capped_quantity(count, kind) for kind, count in counts.items()])
    sentences = level_sentences(levels, is_own=is_own)
    return [f"You have access to {found}.", *sentences] if is_own else sentences


def _downloads(request: HttpRequest, principal: str, where: EntityFilter) -> list[tuple[str, str]]:
    query = {
        "principal": principal,
        "q": where.text,
        "kind": where.kind,
        "namespace": where.namespace,
        "privilege": where.privilege,
        "operation": where.operation,
        "level": where.level,
        "as_of": past_moment_of(request),
    }
    return download_links(WhatCan, lambda extension: url_with_query(f"what_can_{extension}", query))
