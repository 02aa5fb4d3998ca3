"""Links of report cells: numbers link to the rows that they count, decisions to their question."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.urls import reverse

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.tables import Table
from authzconsole.web.shared.links import address_url
from entities.vocabulary import Privilege

# by column: the URL, empty for no link
Links = dict[str, str]
LinksOfRow = Callable[[AnalysisRun, dict], Links]


def cell_urls(run: AnalysisRun, table: Table, row: dict) -> Links:
    """Return the links of a row by column. A number is linked only if it is not zero."""
    links_of_row = LINKS.get((run.type, table.name))
    if links_of_row is None:
        return {}
    return {name: url for name, url in links_of_row(run, row).items() if row[name] or row[name] is False}


def exactly(text: str) -> str:
    """Return the filter text that matches exactly this value.

    Without quotes, a filter also matches parts of values.
    """
    return f'"{text}"'


def exact_value(text: str) -> str:
    """Return the complete value that a filter text in quotes matches; empty if it also matches parts of values."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else ""


def rows_url(run: AnalysisRun, **filters: str) -> str:
    return reverse("analysis", args=[run.pk], query=filters, fragment="rows")


def detail_url(run: AnalysisRun, **filters: str) -> str:
    """Return the URL of the filtered detail table; empty if the report has no such table."""
    if not run.summary.get("detail_is_written"):
        return ""
    return reverse("analysis-table", args=[run.pk, "detail"], query=filters)


def missing_url(run: AnalysisRun, namespace: str, user: str) -> str:
    return reverse("analysis-missing", args=[run.pk], query={"namespace": namespace, "user": user})


def _readiness(run: AnalysisRun, row: dict) -> Links:
    return {"missing": missing_url(run, row["namespace"], row["user"])}


def _readiness_namespaces(run: AnalysisRun, row: dict) -> Links:
    name = exactly(row["namespace"])
    nearest = (
        {"fewest_missing": missing_url(run, row["namespace"], row["nearest_user"])}
        if row["nearest_user"]
        else {}
    )
    return nearest | {
        "users": rows_url(run, namespace=name),
        "users_ready": rows_url(run, namespace=name, ready="yes"),
    }


def _visibility(run: AnalysisRun, row: dict) -> Links:
    return {
        "visible": detail_url(run, user=exactly(row["user"]), entity=_inside(row["kind"], row["namespace"]))
    }


def _inside(kind: str, namespace: str) -> str:
    """Return the filter text that matches exactly the addresses of a kind in a namespace."""
    if kind == "namespace":
        return exactly(f"{kind}:{namespace}")
    return f"{kind}:{namespace}." if namespace else f"{kind}:"


def _visibility_namespaces(run: AnalysisRun, row: dict) -> Links:
    if not row["namespace"]:
        return {}
    return {"visible": rows_url(run, user=exactly(row["user"]), namespace=exactly(row["namespace"]))}


def _impact(run: AnalysisRun, row: dict) -> Links:
    filters = {"user": exactly(row["user"]), "entity": f"{row['kind']}:", "operation": row["operation"]}
    return {
        "gained": detail_url(run, **filters, after="yes"),
        "lost": detail_url(run, **filters, after="no"),
        "operation": _policies_url(run, row["kind"]),
    }


def _impact_operations(run: AnalysisRun, row: dict) -> Links:
    url = rows_url(run, kind=row["kind"], operation=row["operation"])
    return {"users": url, "gained": url, "lost": url, "operation": _policies_url(run, row["kind"])}


def _policies_url(run: AnalysisRun, kind: str) -> str:
    """Return the URL of the policies of that kind in both generations."""
    query = {
        "generation": run.options.get("generation", ""),
        "with": run.options.get("to_generation", ""),
        "kind": kind,
    }
    return reverse("policies", query=query)


def _impact_pairs(run: AnalysisRun, row: dict) -> Links:
    return {
        "before": _question_url(row, run.options.get("generation", "")),
        "after": _question_url(row, run.options.get("to_generation", "")),
    }


def _question_url(row: dict, generation: str) -> str:
    query = {"subject": f"user:{row['user']}", "operation": row["operation"], "generation": generation}
    return f"{address_url('entity', row['entity'])}?{urlencode(query, safe=':')}#ask"


def _ghost_kinds(run: AnalysisRun, row: dict) -> Links:
    return {"grants": rows_url(run, state=row["state"], entity=f"{row['kind']}:")}


def _stranded_kinds(run: AnalysisRun, row: dict) -> Links:
    kind_prefix = f"{row['kind']}:"
    return {
        "nobody": rows_url(run, entity=kind_prefix),
        "one": rows_url(run, entity=kind_prefix, sort="-admins"),
    }


def _blast_radius(run: AnalysisRun, row: dict) -> Links:
    filters = {"user": exactly(row["user"]), "entity": f"{row['kind']}:", "privilege": row["privilege"]}
    return {"entities": detail_url(run, **filters)}


def _blast_radius_people(run: AnalysisRun, row: dict) -> Links:
    user = exactly(row["user"])
    by_privilege = {
        privilege.lower(): rows_url(run, user=user, privilege=privilege) for privilege in map(str, Privilege)
    }
    return {"entities": rows_url(run, user=user), **by_privilege}


def _rows_with(column: str, figure: str) -> LinksOfRow:
    """Return a function that links the figure of a row to the rows of the report with the same value of a column."""
    return lambda run, row: {figure: rows_url(run, **{column: exactly(row[column])})}


def _violations(run: AnalysisRun, row: dict) -> Links:
    return {"guardrail": reverse("policies-guardrail", args=[row["guardrail"]])}


def _violation_totals(run: AnalysisRun, row: dict) -> Links:
    return _violations(run, row) | {"violations": rows_url(run, guardrail=exactly(row["guardrail"]))}


# by analysis and table: the function that returns the links of a row
LINKS: dict[tuple[str, str], LinksOfRow] = {
    (AnalysisName.DELETE_READINESS, "rows"): _readiness,
    (AnalysisName.DELETE_READINESS, "namespaces"): _readiness_namespaces,
    (AnalysisName.VISIBILITY, "rows"): _visibility,
    (AnalysisName.VISIBILITY, "namespaces"): _visibility_namespaces,
    (AnalysisName.POLICY_IMPACT, "rows"): _impact,
    (AnalysisName.POLICY_IMPACT, "operations"): _impact_operations,
    (AnalysisName.POLICY_IMPACT, "detail"): _impact_pairs,
    (AnalysisName.GHOST_GRANTS, "kinds"): _ghost_kinds,
    (AnalysisName.STRANDED, "kinds"): _stranded_kinds,
    (AnalysisName.BLAST_RADIUS, "rows"): _blast_radius,
    (AnalysisName.BLAST_RADIUS, "people"): _blast_radius_people,
    (AnalysisName.REDUNDANT, "groups"): _rows_with("through", "grants"),
    (AnalysisName.UNUSED, "people"): _rows_with("user", "privileges"),
    (AnalysisName.OUTLIERS, "groups"): _rows_with("group", "privileges"),
    (AnalysisName.OUTLIERS, "people"): _rows_with("user", "privileges"),
    (AnalysisName.GUARDRAILS, "rows"): _violations,
    (AnalysisName.GUARDRAILS, "guardrails"): _violation_totals,
}
