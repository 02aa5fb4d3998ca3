"""Prepare journal lines for display: labels of actions, and links to principal, entity and plan."""

import re
from collections.abc import Iterable

from django.urls import reverse

from authzconsole.web.shared.times.periods import period_words
from grants.journal_details import PeriodDetail, parse_detail
from grants.journal_queries import lines_of_applied_plans
from grants.models import JournalLine
from grants.validity import Validity

# by the stored action of a line; stored actions never change
ACTION_LABELS = {
    "grant": "Granted",
    "revoke": "Revoked",
    "begin": "Period began",
    "expire": "Expired",
    "plan": "Registered as planned",
    "plan-apply": "Plan applied",
    "plan-discard": "Plan discarded",
    "register": "Registered",
    "delete": "Deleted",
    "recreate": "Recreated",
    "describe": "Description changed",
    "user-add": "User added",
    "user-activate": "User activated",
    "user-deactivate": "User deactivated",
    "seal": "Journal sealed",
    "user-change": "User changed",
    "role-set": "Console role changed",
    "password-set": "Password set",
    "principal-add": "Account became a principal",
    "group-add": "Group added",
    "group-change": "Group changed",
    "group-remove": "Group removed",
    "user-rename": "User renamed",
    "group-rename": "Group renamed",
    "user-remove": "User removed",
    "token-remove": "Token removed",
    "member-add": "Member added",
    "member-remove": "Member removed",
    "generation-activate": "Generation activated",
    "generation-propose": "Generation proposed",
    "schedule-on": "Nightly run switched on",
    "schedule-off": "Nightly run switched off",
    "schedule-change": "Nightly run changed",
    "run-start": "Run started",
    "run-cancel": "Run cancelled",
    "token-add": "Token created",
    "token-revoke": "Token revoked",
    "identity-link": "Identity linked",
    "identity-unlink": "Identity unlinked",
    "storage-identity": "Storage identity changed",
    "sessions-end": "Sessions ended",
    "factor-add": "Second factor added",
    "factor-remove": "Second factor removed",
    "factor-reset": "Second factors reset",
    "sign-in-limits-clear": "Sign-in limits cleared",
    "break-glass-start": "Break-glass access started",
    "break-glass-end": "Break-glass access ended",
    "break-glass-review": "Break-glass access reviewed",
    "webhook-add": "Webhook created",
    "webhook-change": "Webhook changed",
    "webhook-delete": "Webhook deleted",
    "request-create": "Access requested",
    "request-approve": "Request approved",
    "request-deny": "Request denied",
    "request-ask": "Question asked",
    "request-answer": "Question answered",
    "request-cancel": "Request withdrawn",
    "request-expire": "Request expired",
    "approvers-set": "Approvers of a namespace changed",
    "delegation-set": "Limits of delegation changed",
    "steward-add": "Data steward assigned",
    "steward-remove": "Data steward removed",
    "review-start": "Review started",
    "review-answer": "Review items answered",
    "review-assign": "Review items moved",
    "review-sign-off": "Review items signed off",
    "review-finish": "Review finished",
    "review-cancel": "Review cancelled",
    "review-retry": "Review prepared again",
    "usage-import": "Use imported",
}
# the detail of these lines starts with a plan number; the detail of other lines is free text
ACTIONS_OF_PLANS = {
    "plan",
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


def action_label(action: str) -> str:
    """Return the label of an action; the action itself if it has none."""
    return ACTION_LABELS.get(action, action)


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
    return {
        "line": line,
        "action": action_label(line.action),
        "plan": plan[0] if plan else "",
        "plan_url": reverse("plan", args=[int(plan[1])]) if plan else "",
        "detail": ", ".join(filter(None, (rest, period))),
    }
