"""The entities, users and groups behind one finding, with the button that solves each."""

from collections.abc import Iterator

from django.db.models import Q

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.storage import StorageError
from authzconsole.findings.sources import REPORT_FIGURES, counted_grants, is_planned_too_long
from authzconsole.models import Finding
from authzconsole.web.findings.links import Fix
from authzconsole.web.shared.links import address_url
from entities.address import Address, address_or_none
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import Privilege

MAX_ROWS = 20
GHOST_STATES = {
    "leftover-grants": State.DELETED,
    "planned-grants": State.PLANNED,
    "old-planned-grants": State.PLANNED,
}
_FIGURES_WITH_ROWS = {figure.kind: figure for figure in REPORT_FIGURES if figure.table}


@frozen
class ProblemRow:
    """One problem. address: of the entity. principal: in written form; empty if none is concerned. text: what is wrong."""

    address: Address
    principal: str
    text: str
    fix: Fix | None = None


def _has_entities(finding: Finding) -> bool:
    return finding.resolved_at is None and (not finding.subject or bool(finding.namespace))


def reads_report(finding: Finding, run: AnalysisRun | None) -> bool:
    """Return whether `problem_rows` reads a report and checks its rows again."""
    return run is not None and _has_entities(finding) and finding.kind in _FIGURES_WITH_ROWS


def problem_rows(finding: Finding, run: AnalysisRun | None) -> list[ProblemRow]:
    """Return the first MAX_ROWS problems as they are now; none for kinds that have no entities. Reads at most one page of the report.

    run: that reported the finding.
    """
    if not _has_entities(finding):
        return []
    if finding.kind in GHOST_STATES:
        return list(_ghost_rows(finding, run))
    if run is None or not reads_report(finding, run):
        return []
    try:
        rows = _FIGURES_WITH_ROWS[finding.kind].rows_in(run, finding.namespace, MAX_ROWS)
    except (AnalysisError, StorageError):
        return []
    return [row for values in rows if (row := _row(finding.kind, values))]


def _row(kind: str, values: dict) -> ProblemRow | None:
    """Return the row of a report for display; None if its kind of entities does not exist any more."""
    address = address_or_none(values.get("entity") or f"namespace:{values.get('namespace')}")
    if address is None:
        return None
    match kind:
        case "undeletable":
            user = values["nearest_user"]
            text = f"is missing {values['fewest_missing']:,} of {values['required']:,} grants" if user else ""
            return ProblemRow(address, f"user:{user}" if user else "", text)
        case "no-admin-holder" | "one-admin-holder":
            grant = address_url("grant", address)
            fix = Fix("Grant ADMIN", f"{grant}?privilege={Privilege.ADMIN}")
            user = values["admin"]
            text = "is the only ADMIN holder" if user else "nobody holds ADMIN"
            return ProblemRow(address, f"user:{user}" if user else "", text, fix)
        case "redundant-grants":
            text = f"{values['privilege']}, which {values['through']} gives too"
        case _:
            text = f"{values['privilege']}, without a recorded use"
    return _grant_row(address, values["principal"], values["privilege"], text)


def _grant_row(address: Address, principal: str, privilege: str, text: str) -> ProblemRow:
    url = f"{address_url('revoke', address)}?principal={principal}&privilege={privilege}"
    return ProblemRow(address, principal, text, Fix("Revoke", url))


def _ghost_rows(finding: Finding, run: AnalysisRun | None) -> Iterator[ProblemRow]:
    """Yield the first grants that the finding is about. Runs two queries."""
    namespace = finding.namespace
    inside = Q(namespace__key=namespace) if namespace else Q(namespace=None)
    inside &= Q(content_object__state=GHOST_STATES[finding.kind])
    match finding.kind:
        case "old-planned-grants":
            inside &= is_planned_too_long()
        case "planned-grants" if run is None:
            # a report counts the old ones too
            inside &= ~is_planned_too_long()
    left = MAX_ROWS
    for grants in counted_grants():
        rows = grants.filter(inside).order_by("content_object_id", "pk")[:left]
        for principal, address, privilege in rows.grant_keys():
            yield _grant_row(address, principal, privilege, privilege)
            left -= 1
