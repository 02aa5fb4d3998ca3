"""What administrators and auditors see first: how much there is, the namespaces as a picture, what needs attention."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Count

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.results import ResultPage, result_page, table_readable
from analytics.storage import StorageError
from authzconsole.web.attention import attention
from authzconsole.web.lines import journal_line_shown
from authzconsole.web.reports import namespace_url, quoted_summaries
from authzconsole.web.sizes import Size, size_of
from authzconsole.web.treemap import Item, treemap
from entities.models import Entity, State
from grants.models import GroupGrant, User, UserGrant
from grants.policies.policy import Generation
from grants.selectors import journal_lines

MOST_TILES = 60
MOST_LINES = 5


def overview_sections(generation: Generation, entities: Size, readiness: AnalysisRun | None) -> dict:
    """entities: how many addresses there are.

    The same number of queries whatever there is; past `sizes.MOST_COUNTED` entities nothing is counted one by one, and the
    picture is drawn from the newest report on readiness.
    """
    is_large = entities.is_large
    return {"figures": list(_figures(entities)), "picture": _picture(readiness, is_large=is_large),
            "attention": attention(generation, readiness, is_large=is_large),
            "lines": [journal_line_shown(line) for line in journal_lines()[:MOST_LINES]]}


def size_of_tenant() -> Size:
    return size_of(Entity.objects.all())


def _figures(entities: Size) -> Iterator[tuple[int, str]]:
    """(figure, unit)"""
    grants = size_of(UserGrant.objects.all()) + size_of(GroupGrant.objects.all())
    people, groups = size_of(User.objects.filter(is_principal=True)), size_of(Group.objects.all())
    for size, one, many in ((entities, "address", "addresses of entities"), (people, "person", "people"),
                            (groups, "group", "groups"), (grants, "grant", "grants")):
        yield size.figure, f"{one if size.figure == 1 else many}{'' if size.is_exact else ', by estimate'}"


def _picture(run: AnalysisRun | None, *, is_large: bool) -> dict:
    """words: what the areas are. more: namespaces that are not drawn one by one."""
    if not is_large:
        return _counted_picture(run)
    try:
        return _reported_picture(run) if run else {"tiles": [], "more": 0, "is_unknown": True}
    except (AnalysisError, StorageError):
        return {"tiles": [], "more": 0, "is_unknown": True}


def _counted_picture(run: AnalysisRun | None) -> dict:
    live = Entity.objects.filter(state=State.LIVE, namespace__state=State.LIVE).order_by()
    rows = list(live.values_list("namespace__key").annotate(total=Count("pk")).order_by("-total", "namespace__key")[:MOST_TILES])
    whole = live.aggregate(entities=Count("pk"), namespaces=Count("namespace", distinct=True))
    reports, _ = quoted_summaries(run, [name for name, _ in rows])
    items = [_item(name, total, "live entity" if total == 1 else "live entities", reports.get(name)) for name, total in rows]
    more, rest = whole["namespaces"] - len(rows), whole["entities"] - sum(total for _, total in rows)
    if more:
        inside = f"{rest:,} live entities"
        items.append(Item(f"{more:,} more", rest, inside, f"{more:,} smaller namespaces, {inside}"))
    return {"tiles": treemap(items), "more": more, "words": "live entities",
            "has_unchecked": any(name not in reports for name, _ in rows)}


def _reported_picture(run: AnalysisRun) -> dict:
    found = largest_namespaces(run)
    items = [_item(row["namespace"], row["required"], "to administer", row) for row in found.rows]
    return {"tiles": treemap(items), "more": found.total_rows - len(found.rows), "is_reported": True,
            "words": "entities that must be administered to delete it"}


@dataclass(frozen=True, slots=True)
class _Report:
    """Where a report lies, by which it is told apart: it never changes."""

    place: str
    folder: str
    run: AnalysisRun = field(compare=False)


def largest_namespaces(run: AnalysisRun) -> ResultPage:
    """The rows of a report on readiness that a picture has room for. Raises AnalysisError, StorageError.

    Kept for the next look: reading it takes longer than the rest of the page.
    """
    table_readable(run, "namespaces")
    return _largest(_Report(settings.SNAPSHOT_URI, run.result_folder, run))


@lru_cache(maxsize=8)
def _largest(report: _Report) -> ResultPage:
    return result_page(report.run, "namespaces", sort="required", descending=True, most_rows=MOST_TILES)


def _item(name: str, area: int, unit: str, report: dict | None) -> Item:
    meaning, words = readiness_words(report)
    return Item(name, area, f"{area:,} {unit}", f"namespace:{name}: {area:,} {unit}; {words}", namespace_url(name), meaning)


def readiness_words(report: dict | None) -> tuple[str, str]:
    """The meaning of a tile, and what a report says of its namespace."""
    if report is None:
        return "", "not checked yet"
    if report["users_ready"]:
        return "good", f"{report['users_ready']:,} {'person' if report['users_ready'] == 1 else 'people'} can delete it"
    if report["nearest_user"]:
        return "bad", (f"nobody can delete it; {report['nearest_user']} lacks {report['fewest_missing']:,} of "
                       f"{report['required']:,}")
    return "bad", "nobody can delete it, and nobody holds ADMIN in it"
