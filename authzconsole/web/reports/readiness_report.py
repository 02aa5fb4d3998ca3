"""The sections of a delete-readiness report: figures, one row per namespace, and one row per namespace and
user.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.results.files import ResultsGone
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, readable_table, result_page
from analytics.storage import StorageError
from authzconsole.common.messages import as_sentence
from authzconsole.web.reports.cell_links import missing_url
from authzconsole.web.reports.table_filters import FLAGS, download_urls, text_filter
from authzconsole.web.reports.table_headings import column_head
from authzconsole.web.shared.links import AddressLink, PrincipalLink, address_link_to, address_url, entity_url
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.parameters import text_parameter
from entities.address import Address

ROWS_PER_PAGE = 50
NAMESPACES_PER_PAGE = 25
MAX_NAMES = 3
FILTERS = ("namespace", "user", "ready")

COLUMNS = (
    ("namespace", "Namespace"),
    ("user", "User"),
    ("required", "Required"),
    ("held", "Held"),
    ("missing", "Missing"),
    ("ready", "Can delete it"),
)


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The storage location of a report, used as a cache key because a stored report never changes."""

    snapshot_uri: str
    folder: str
    run: AnalysisRun = field(compare=False)


def stored_report(run: AnalysisRun, table: str) -> StoredReport:
    """Return the cache key of a report.

    Raise the errors of `result_page` if the table no longer exists, even if it is cached.
    """
    readable_table(run, table)
    return StoredReport(settings.SNAPSHOT_URI, run.result_path, run)


def namespace_summaries(run: AnalysisRun | None, names: Iterable[str]) -> Mapping[str, dict]:
    """Return the rows of these namespaces by name.

    Namespaces that the report does not contain are left out.
    """
    names = tuple(names)
    return _summaries(stored_report(run, "namespaces"), names) if run and names else {}


@lru_cache(maxsize=64)
def _summaries(report: StoredReport, names: tuple[str, ...]) -> Mapping[str, dict]:
    page = result_page(
        report.run, "namespaces", where=ResultFilter(among={"namespace": names}), max_rows=len(names)
    )
    return {row["namespace"]: row for row in page.rows}


def summaries_or_fault(run: AnalysisRun | None, names: Iterable[str]) -> tuple[Mapping[str, dict], str]:
    """Return `namespace_summaries` and an empty message; an empty mapping and an error message if it cannot
    be read.
    """
    try:
        return namespace_summaries(run, names), ""
    except (AnalysisError, StorageError) as error:
        return {}, report_fault(run, error)


def report_fault(run: AnalysisRun, error: Exception) -> str:
    """Return the error message for a report that cannot be read."""
    if isinstance(error, ResultsGone):
        return as_sentence(error)
    return f"The report of run {run.pk} cannot be read: {error}."


def read_page(run: AnalysisRun, table: str, *, number: int, max_rows: int, **query) -> tuple[ResultPage, int]:
    """Return the page with that number, or the last page if there are fewer, and its number."""
    result = result_page(run, table, first_row=(number - 1) * max_rows, max_rows=max_rows, **query)
    if result.rows or not result.total_rows:
        return result, number if result.rows else 1
    last = -(-result.total_rows // max_rows)
    return result_page(run, table, first_row=(last - 1) * max_rows, max_rows=max_rows, **query), last


def _namespaces_section(request: HttpRequest, run: AnalysisRun) -> dict:
    result, number = read_page(
        run,
        "namespaces",
        number=page_number(request, "namespaces"),
        max_rows=NAMESPACES_PER_PAGE,
        sort="nobody_can_delete",
        descending=True,
    )
    names = _ready_names(run, [row["namespace"] for row in result.rows if row["users_ready"]])
    rows = [
        {
            **row,
            "address_link": _namespace_link(row),
            "held": _held_count(row),
            **_closest_user(run, row),
            "ready_users": [
                PrincipalLink("user", name) for name in names.get(row["namespace"], [])[:MAX_NAMES]
            ],
            "ready_users_more": max(0, row["users_ready"] - MAX_NAMES),
            "ready_url": f"{url_with(request, namespace=row['namespace'], user=None, ready='yes', page=None)}#rows",
            "rows_url": f"{url_with(request, namespace=row['namespace'], user=None, ready=None, page=None)}#rows",
        }
        for row in result.rows
    ]
    page = numbered_page(
        request, rows, number=number, total=result.total_rows, max_rows=NAMESPACES_PER_PAGE, name="namespaces"
    )
    return {"page": page, "rows": rows, "downloads": download_urls(run, "namespaces")}


def _closest_user(run: AnalysisRun, row: dict) -> dict:
    name = row["nearest_user"]
    return {
        "nearest": PrincipalLink("user", name) if name else None,
        "missing_url": missing_url(run, row["namespace"], name) if name and row["fewest_missing"] else "",
    }


def _namespace_link(row: dict) -> AddressLink:
    return address_link_to(Address("namespace", row["namespace"]))


def _held_count(row: dict) -> int:
    return row["required"] - row["fewest_missing"] if row["fewest_missing"] is not None else 0


def _ready_names(run: AnalysisRun, namespaces: list[str]) -> dict[str, list[str]]:
    """Return the users who can delete each of these namespaces, at most 1,000 in total."""
    if not namespaces:
        return {}
    where = ResultFilter(equal={"ready": True}, among={"namespace": namespaces})
    names: dict[str, list[str]] = {}
    for row in result_page(run, where=where, max_rows=1_000).rows:
        names.setdefault(row["namespace"], []).append(row["user"])
    return names


def _rows_section(request: HttpRequest, run: AnalysisRun) -> dict:
    form = readiness_form(request)
    sort = form["sort"].removeprefix("-")
    sort = sort if sort in dict(COLUMNS) else ""
    result, number = read_page(
        run,
        "rows",
        number=page_number(request, "page"),
        max_rows=ROWS_PER_PAGE,
        sort=sort,
        where=readiness_filter(run, form),
        descending=form["sort"].startswith("-"),
    )
    rows = [
        {
            **row,
            "address_link": _namespace_link(row),
            "principal": PrincipalLink("user", row["user"]),
            "missing_url": missing_url(run, row["namespace"], row["user"]) if row["missing"] else "",
            "forecast_url": forecast_url(row["namespace"], row["user"], run.options),
        }
        for row in result.rows
    ]
    return {
        "page": numbered_page(
            request, rows, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE, name="page"
        ),
        "rows": rows,
        "filters": _filters(form),
        "sort": form["sort"],
        "columns": _columns(request, form["sort"]),
        "reset_url": url_with(request, namespace=None, user=None, ready=None, page=None),
        "is_filtered": any(form[name] for name in FILTERS),
        "total": result.total_rows,
        "downloads": download_urls(run, "rows", {name: form[name] for name in FILTERS}),
    }


def readiness_form(request: HttpRequest) -> dict[str, str]:
    return {name: text_parameter(request, name) for name in (*FILTERS, "sort")}


def readiness_filter(run: AnalysisRun, form: dict) -> ResultFilter:
    user, namespace = (
        text_filter("user", form["user"]),
        text_filter("namespace", form["namespace"].removeprefix("namespace:")),
    )
    ready = {"ready": FLAGS[form["ready"]]} if form["ready"] in FLAGS else {}
    if name := namespace.containing.get("namespace"):
        # A complete name matches only that namespace, not longer names that contain it.
        namespace = ResultFilter(equal={"namespace": name}) if namespace_summaries(run, [name]) else namespace
    return ResultFilter(
        equal={**ready, **user.equal, **namespace.equal},
        containing={**user.containing, **namespace.containing},
    )


def _filters(form: dict[str, str]) -> list[dict]:
    """Return the filter fields, for `reports/table/_filters.html`."""
    return [
        {"name": "namespace", "title": "Namespace", "value": form["namespace"]},
        {"name": "user", "title": "User", "value": form["user"]},
        {
            "name": "ready",
            "title": "Can delete it",
            "any_label": "Any status",
            "value": form["ready"],
            "choices": [("yes", "Ready"), ("no", "Not ready")],
        },
    ]


def _columns(request: HttpRequest, order: str) -> list[dict]:
    return [
        column_head(request, name, title, is_number=name in ("required", "held", "missing"), order=order)
        for name, title in COLUMNS
    ]


def namespace_url(name: str) -> str:
    return entity_url(Address("namespace", name))


def forecast_url(namespace: str, user: str, options: dict) -> str:
    """Return the URL of the forecast for the user and the generation of the report."""
    query = urlencode({"deleter": user, "generation": options.get("generation", "")})
    return f"{address_url('forecast', Address('namespace', namespace))}?{query}"


# by the id of the section; its template is reports/_<id>.html
SECTIONS: dict[str, Callable[[HttpRequest, AnalysisRun], dict]] = {
    "namespaces": _namespaces_section,
    "rows": _rows_section,
}


def report_sections(request: HttpRequest, run: AnalysisRun, section: str) -> dict:
    """Return the sections of a report page; only `section` if htmx requests it.

    Sections that cannot be read are left out.
    """
    context = {} if section in SECTIONS else {"figures": run.summary}
    for name in [section] if section in SECTIONS else SECTIONS:
        try:
            context[name] = SECTIONS[name](request, run)
        except (AnalysisError, StorageError) as error:
            context["report_fault"] = report_fault(run, error)
    return context
