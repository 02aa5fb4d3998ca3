"""Reading finished delete-readiness reports: figures, namespaces, and one row per namespace and user."""

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
from authzconsole.web.reports.cell_links import missing_url
from authzconsole.web.reports.table_filters import FLAGS, download_urls, text_where
from authzconsole.web.shared.links import AddressLink, PrincipalLink, address_link_to, address_url, entity_url
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.parameters import text_parameter
from entities.address import Address

ROWS_A_PAGE = 50
NAMESPACES_A_PAGE = 25
NAMES_SHOWN = 3
FILTERS = ("namespace", "user", "ready")

COLUMNS = (("namespace", "Namespace"), ("user", "User"), ("required", "Required"), ("held", "Held"), ("missing", "Missing"),
           ("ready", "Can delete it"))


@dataclass(frozen=True, slots=True)
class StoredReport:
    """Where a report lies, by which what was read of it is kept for the next look: it never changes."""

    place: str
    folder: str
    run: AnalysisRun = field(compare=False)


def stored_report(run: AnalysisRun, table: str) -> StoredReport:
    """Raises as `result_page` does where the table is not there any more, whatever was read of it before."""
    readable_table(run, table)
    return StoredReport(settings.SNAPSHOT_URI, run.result_folder, run)


def namespace_summaries(run: AnalysisRun | None, names: Iterable[str]) -> Mapping[str, dict]:
    """The row of each of these namespaces; those that the report does not name are left out."""
    names = tuple(names)
    return _summaries(stored_report(run, "namespaces"), names) if run and names else {}


@lru_cache(maxsize=64)
def _summaries(report: StoredReport, names: tuple[str, ...]) -> Mapping[str, dict]:
    page = result_page(report.run, "namespaces", where=ResultFilter(among={"namespace": names}), most_rows=len(names))
    return {row["namespace"]: row for row in page.rows}


def quoted_summaries(run: AnalysisRun | None, names: Iterable[str]) -> tuple[Mapping[str, dict], str]:
    """The same for a page that has more to show than the report: none and a notice where it cannot be read."""
    try:
        return namespace_summaries(run, names), ""
    except (AnalysisError, StorageError) as error:
        return {}, unreadable(run, error)


def unreadable(run: AnalysisRun, error: Exception) -> str:
    if isinstance(error, ResultsGone):
        said = str(error)
        return f"{said[0].upper()}{said[1:]}."
    return f"The report of run {run.pk} cannot be read: {error}."


def numbered_rows(run: AnalysisRun, table: str, *, number: int, most_rows: int, **asked) -> tuple[ResultPage, int]:
    """The page of that number, or the last one there is, and its number."""
    found = result_page(run, table, first_row=(number - 1) * most_rows, most_rows=most_rows, **asked)
    if found.rows or not found.total_rows:
        return found, number if found.rows else 1
    last = -(-found.total_rows // most_rows)
    return result_page(run, table, first_row=(last - 1) * most_rows, most_rows=most_rows, **asked), last


def _namespaces(request: HttpRequest, run: AnalysisRun) -> dict:
    found, number = numbered_rows(run, "namespaces", number=page_number(request, "namespaces"), most_rows=NAMESPACES_A_PAGE,
                                  sort="nobody_can_delete", descending=True)
    names = _ready_names(run, [row["namespace"] for row in found.rows if row["users_ready"]])
    rows = [{**row, "address_link": _place(row), "names": (ready := names.get(row["namespace"], [])[:NAMES_SHOWN]),
             "people": [PrincipalLink("user", name) for name in ready],
             "names_more": max(0, row["users_ready"] - NAMES_SHOWN), "held": _held(row), **_nearest(run, row),
             "ready_url": f"{url_with(request, namespace=row['namespace'], user=None, ready='yes', page=None)}#rows",
             "rows_url": f"{url_with(request, namespace=row['namespace'], user=None, ready=None, page=None)}#rows"}
            for row in found.rows]
    page = numbered_page(request, rows, number=number, total=found.total_rows, max_rows=NAMESPACES_A_PAGE, name="namespaces")
    return {"page": page, "rows": rows, "downloads": download_urls(run, "namespaces")}


def _nearest(run: AnalysisRun, row: dict) -> dict:
    name = row["nearest_user"]
    return {"nearest": PrincipalLink("user", name) if name else None,
            "missing_url": missing_url(run, row["namespace"], name) if name and row["fewest_missing"] else ""}


def _place(row: dict) -> AddressLink:
    return address_link_to(Address("namespace", row["namespace"]))


def _held(row: dict) -> int:
    return row["required"] - row["fewest_missing"] if row["fewest_missing"] is not None else 0


def _ready_names(run: AnalysisRun, namespaces: list[str]) -> dict[str, list[str]]:
    """Who can delete each of these namespaces, by name; no more than a page could show."""
    if not namespaces:
        return {}
    where = ResultFilter(equal={"ready": True}, among={"namespace": namespaces})
    names: dict[str, list[str]] = {}
    for row in result_page(run, where=where, most_rows=1_000).rows:
        names.setdefault(row["namespace"], []).append(row["user"])
    return names


def _rows(request: HttpRequest, run: AnalysisRun) -> dict:
    given = given_of(request)
    sort = given["sort"].removeprefix("-")
    sort = sort if sort in dict(COLUMNS) else ""
    found, number = numbered_rows(run, "rows", number=page_number(request, "page"), most_rows=ROWS_A_PAGE, sort=sort,
                                  where=readiness_where(run, given), descending=given["sort"].startswith("-"))
    rows = [{**row, "address_link": _place(row), "principal": PrincipalLink("user", row["user"]),
             "missing_url": missing_url(run, row["namespace"], row["user"]) if row["missing"] else "",
             "forecast_url": forecast_url(row["namespace"], row["user"], run.options)}
            for row in found.rows]
    return {"page": numbered_page(request, rows, number=number, total=found.total_rows, max_rows=ROWS_A_PAGE, name="page"),
            "rows": rows, "given": given, "columns": _columns(request, sort, given["sort"]),
            "reset_url": url_with(request, namespace=None, user=None, ready=None, page=None),
            "is_filtered": any(given[name] for name in FILTERS), "total": found.total_rows,
            "downloads": download_urls(run, "rows", {name: given[name] for name in FILTERS})}


def given_of(request: HttpRequest) -> dict[str, str]:
    return {name: text_parameter(request, name) for name in (*FILTERS, "sort")}


def readiness_where(run: AnalysisRun, given: dict) -> ResultFilter:
    user, namespace = text_where("user", given["user"]), text_where("namespace", given["namespace"].removeprefix("namespace:"))
    ready = {"ready": FLAGS[given["ready"]]} if given["ready"] in FLAGS else {}
    if name := namespace.containing.get("namespace"):
        # a whole name means that namespace, and not those whose names hold it
        namespace = ResultFilter(equal={"namespace": name}) if namespace_summaries(run, [name]) else namespace
    return ResultFilter(equal={**ready, **user.equal, **namespace.equal}, containing={**user.containing, **namespace.containing})


def _columns(request: HttpRequest, sort: str, asked: str) -> list[dict]:
    """Each head with the URL that sorts by it; a second click turns the order around."""
    return [{"name": name, "title": title, "is_number": name in ("required", "held", "missing"),
             "order": ("descending" if asked.startswith("-") else "ascending") if name == sort else "",
             "url": url_with(request, sort=f"-{name}" if asked == name else name, page=None)} for name, title in COLUMNS]


def namespace_url(name: str) -> str:
    return entity_url(Address("namespace", name))


def forecast_url(namespace: str, user: str, options: dict) -> str:
    """What would happen if the person deleted it, by the rules of the report."""
    query = urlencode({"deleter": user, "generation": options.get("generation", "")})
    return f"{address_url('forecast', Address('namespace', namespace))}?{query}"


# by the id of the part; the template of each is analyses/_<id>.html
PARTS: dict[str, Callable[[HttpRequest, AnalysisRun], dict]] = {"namespaces": _namespaces, "rows": _rows}


def report_parts(request: HttpRequest, run: AnalysisRun, part: str) -> dict:
    """What the page shows of a report; only `part` where htmx asks for one. A part that cannot be read is left out."""
    shown = {} if part in PARTS else {"figures": run.summary}
    for name in [part] if part in PARTS else PARTS:
        try:
            shown[name] = PARTS[name](request, run)
        except (AnalysisError, StorageError) as error:
            shown["report_fault"] = unreadable(run, error)
    return shown
