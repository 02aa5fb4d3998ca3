"""Prepare journal lines for display: labels of actions, and links to principal, entity and plan; and the latest lines of one
entity or principal, for accounts that can read the journal.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.journal.evidence import evidence_ends, evidence_fields, evidence_url
from authzconsole.web.journal.periods import Period, period_by_key, recent_periods
from authzconsole.web.shared.paging import keyset_page, url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.times import exact_time, period_words, start_of_day
from entities.models import Entity
from entities.vocabulary import INNER_CONTAINER_KINDS
from grants.authority.rights import can_read_history
from grants.errors import GuardrailError
from grants.guardrails.rules import rule_from_text
from grants.journal import ACTIONS, current_revision
from grants.journal_details import PeriodDetail, parse_detail
from grants.journal_queries import (
    MAX_LINES_SEARCHED,
    has_contents_index,
    journal_lines,
    lines_of_applied_plans,
)
from grants.models import JournalLine
from grants.policies.policy import Generation
from grants.policies.principals import ROLE_PREFIX
from grants.policies.times import TimeError, parse_time
from grants.validity import Validity

MAX_LINES = 8
LINES_PER_PAGE = 20
MAX_LINES_COUNTED = 1_000
# the value of the parameter `period` for all lines
ANY_TIME = "all"


def history_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section of an entity's page; None for accounts that cannot read the journal.

    For a namespace or an application, the lines about its contents are included, and only this quarter is listed, unless
    the URL says otherwise. Runs up to ten queries, whatever the number of lines.
    """
    if not can_read_history(request.user, entity):
        return None
    past = getattr(request, "past", None)
    is_container = entity.kind in INNER_CONTAINER_KINDS
    has_contents = is_container and text_parameter(request, "scope") != "own"
    key = text_parameter(request, "period") or ("quarter" if is_container and not past else ANY_TIME)
    period = period_by_key(key)
    filters = {"entity": str(entity)} | (period.days if period else {})
    lines, is_partial = _lines_about(entity, period, has_contents=has_contents)
    if past:
        lines = lines.filter(place__lte=past.revision)
    page = keyset_page(request, lines, "-place", max_rows=LINES_PER_PAGE, prefix="line-")
    actions = Counter(lines.values_list("action", flat=True)[: MAX_LINES_COUNTED + 1])
    section = {
        "page": page,
        "lines": journal_rows(page.rows),
        "total": actions.total(),
        "max_counted": MAX_LINES_COUNTED,
        "actions": [(action_label(action), count) for action, count in actions.most_common()],
        "is_container": is_container,
        "has_contents": has_contents,
        "hides_entity": not has_contents,
        "is_partial": is_partial,
        "max_searched": MAX_LINES_SEARCHED,
        "period": period,
        "periods": recent_periods(),
        "any_time": ANY_TIME,
    }
    if request.user.can_read_journal:
        # a page about the past changes nothing; evidence of all times is rarely meant, so it is of this quarter then
        of_evidence = None if past else period or recent_periods()[0]
        filters |= {"contents": "yes"} if has_contents else {}
        ends = {"of": str(entity), "contents": "yes"} | (period.ends if period else {})
        return section | {
            "url": url_with_query("journal", filters),
            "differences_url": url_with_query("journal-differences", ends),
            "has_pages": True,
            "evidence": (of_evidence and evidence_ends(of_evidence) or {}) | evidence_fields(entity),
            "evidence_period": of_evidence,
            "evidence_url": evidence_url(entity),
        }
    # a data steward cannot open the pages of the journal and of principals
    for row in section["lines"]:
        row["plan_url"] = ""
    return section | {"is_plain": True}


def _lines_about(
    entity: Entity, period: Period | None, *, has_contents: bool
) -> tuple[QuerySet[JournalLine], bool]:
    """Return the lines about an entity in a period, and whether they are only those of the newest lines of the journal,
    because no index finds them.
    """
    times = {
        "since": start_of_day(period.since) if period else None,
        "until": start_of_day(period.until + timedelta(days=1)) if period and period.until else None,
    }
    if not has_contents:
        return journal_lines(entity=str(entity), **times), False
    lines = journal_lines(contents_of=entity.address, **times)
    first = 0 if has_contents_index(entity.address) else current_revision() - MAX_LINES_SEARCHED
    return (lines.filter(place__gt=first), True) if first > 0 else (lines, False)


def latest_journal_lines(request: HttpRequest, **filters: str) -> dict:
    """Return the latest lines that match all filters, and the URL of the journal with the same filters. Runs
    one query.

    A page that shows an earlier state does not list later lines.
    """
    lines = journal_lines(**filters)
    if past := getattr(request, "past", None):
        lines = lines.filter(place__lte=past.revision)
    lines = lines[:MAX_LINES]
    return {"lines": journal_rows(lines), "url": reverse("journal", query=filters)}


# the detail of these lines starts with a plan number; the detail of other lines is free text
ACTIONS_OF_PLANS = {
    "plan",
    "plan-create",
    "plan-apply",
    "plan-discard",
    "grant",
    "revoke",
    "user-activate",
    "user-deactivate",
}
ACTIONS_OF_MEMBERSHIPS = {"member-add", "member-remove"}
# the detail of these lines can start with a period
ACTIONS_OF_PERIODS = {"grant", "begin", "expire", "member-add"}
_PLAN = re.compile(r"plan (\d{1,18})(?=:|$)")
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# a count of 0 in a list such as `keep 3, revoke 0`
_NONE = re.compile(r"(?:, \b[a-z]+ 0\b)|(?:(?<=: )[a-z]+ 0, )")


def action_label(action: str) -> str:
    """Return the label of an action; the action itself if it has none."""
    return ACTIONS.get(action, action)


def _label(line: JournalLine) -> str:
    """Return the label of the action. Roles are stored as groups, and have the same actions."""
    label = action_label(line.action)
    return label.replace("Group", "Role") if line.principal.startswith(ROLE_PREFIX) else label


def plan_number(line: JournalLine) -> int | None:
    """Return the number of the plan that the line belongs to; None if it belongs to none."""
    plan = _PLAN.match(_detail(line).rest) if line.action in ACTIONS_OF_PLANS else None
    return int(plan[1]) if plan else None


def _detail(line: JournalLine) -> PeriodDetail:
    return (
        parse_detail(line.detail)
        if line.action in ACTIONS_OF_PERIODS
        else PeriodDetail(Validity(), None, line.detail)
    )


def _period_text(detail: PeriodDetail) -> str:
    """Return the period of a line in words, with the earlier period if the line changed it; empty without
    limits.
    """
    if detail.before is not None:
        return f"{period_words(detail.period)} (before: {period_words(detail.before)})"
    return period_words(detail.period) if detail.period.is_limited else ""


def journal_rows(lines: Iterable[JournalLine]) -> list[dict]:
    """Return the lines with their links, like `journal_row`. Runs one query if a request changed memberships.

    The detail of a line about a membership is the group. If a plan changed it, a later line of the request
    names the plan.
    """
    lines = list(lines)
    requests = {
        line.request_id for line in lines if line.action in ACTIONS_OF_MEMBERSHIPS and line.request_id
    }
    applied = list(lines_of_applied_plans(requests)) if requests else []
    return [
        journal_row(
            line,
            next(
                (
                    plan_line
                    for plan_line in applied
                    if line.action in ACTIONS_OF_MEMBERSHIPS
                    and plan_line.request_id == line.request_id
                    and plan_line.revision > line.revision
                ),
                None,
            ),
        )
        for line in lines
    ]


def journal_row(line: JournalLine, plan_line: JournalLine | None = None) -> dict:
    """Return the line with its links. plan: the plan at the start of the detail, or empty. detail: the rest
    of the detail.

    plan_line: the line about the plan that changed a membership.
    """
    detail = _detail(line)
    plan = _PLAN.match(detail.rest) if line.action in ACTIONS_OF_PLANS else None
    rest, period = detail.rest[plan.end() :] if plan else detail.rest, _period_text(detail)
    if plan_line is not None and (plan := _PLAN.match(plan_line.detail)):
        rest = f", {rest}"
    elif plan and period and not rest:
        # after the link to the plan
        period = f", {period}"
    return {
        "line": line,
        "action": _label(line),
        "plan": plan[0] if plan else "",
        "plan_url": reverse("plan", args=[int(plan[1])]) if plan else "",
        "detail": _guardrail_in_words(line)
        if line.action == "guardrail-set"
        else _in_words(", ".join(filter(None, (rest, period)))),
    }


def _in_words(detail: str) -> str:
    """Return the detail for readers: times in their time zone, the first digits of hashes, and without counts of 0."""
    return with_reader_times(_HASH.sub(r"\1…", _NONE.sub("", detail)))


def _guardrail_in_words(line: JournalLine) -> str:
    """Return the detail of a line about a written guardrail as a sentence; as it is if it is no rule."""
    name, _, text = line.detail.partition(": ")
    try:
        return f"`{name}` {rule_from_text(text, line.principal).sentence}"
    except GuardrailError:
        return line.detail


def with_reader_times(text: str) -> str:
    """Return the text with its times in the time zone of the reader."""
    return _TIME.sub(_reader_time, text)


def _reader_time(match: re.Match) -> str:
    try:
        return exact_time(parse_time(match[0]))
    except (TimeError, OverflowError):
        # a reason or a name may look like a time without being one
        return match[0]
