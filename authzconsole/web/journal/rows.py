"""Prepare journal lines for display: labels of actions, and links to principal, entity and plan."""

import re

from django.urls import reverse

from authzconsole.web.shared.links import AddressLink, address_link_to, principal_link_from_text
from entities.address import AddressError, parse_address
from grants.models import JournalLine

# by the stored action of a line; stored actions never change
ACTION_LABELS = {
    "grant": "Granted", "revoke": "Revoked", "plan": "Registered as planned", "plan-apply": "Plan applied",
    "plan-discard": "Plan discarded",
    "register": "Registered", "delete": "Deleted", "recreate": "Recreated", "describe": "Description changed",
    "user-add": "User added", "user-activate": "User activated", "user-deactivate": "User deactivated",
    "seal": "Journal sealed", "user-change": "User changed", "role-set": "Console role changed", "password-set": "Password set",
    "principal-add": "Account became a principal", "group-add": "Group added",
    "group-change": "Group changed", "group-remove": "Group removed", "user-rename": "User renamed",
    "group-rename": "Group renamed", "user-remove": "User removed", "token-remove": "Token removed",
    "member-add": "Member added", "member-remove": "Member removed", "generation-activate": "Generation activated",
    "schedule-on": "Nightly run switched on", "schedule-off": "Nightly run switched off",
    "schedule-change": "Nightly run changed", "run-start": "Run started", "run-cancel": "Run cancelled",
    "token-add": "Token created", "token-revoke": "Token revoked", "identity-link": "Identity linked",
    "identity-unlink": "Identity unlinked",
    "storage-identity": "Storage identity changed", "sessions-end": "Sessions ended",
    "factor-add": "Second factor added", "factor-remove": "Second factor removed", "factor-reset": "Second factors reset",
    "sign-in-limits-clear": "Sign-in limits cleared", "webhook-add": "Webhook created", "webhook-change": "Webhook changed",
    "webhook-delete": "Webhook deleted",
}
# the detail of these lines starts with a plan number; the detail of other lines is free text
ACTIONS_OF_PLANS = {"plan", "plan-apply", "plan-discard", "grant", "revoke", "user-activate", "user-deactivate"}
_PLAN = re.compile(r"plan (\d{1,18})(?=:|$)")


def action_label(action: str) -> str:
    """Return the label of an action; the action itself if it has none."""
    return ACTION_LABELS.get(action, action)


def plan_number(line: JournalLine) -> int | None:
    """Return the number of the plan that the line belongs to; None if it belongs to none."""
    plan = _PLAN.match(line.detail) if line.action in ACTIONS_OF_PLANS else None
    return int(plan[1]) if plan else None


def journal_row(line: JournalLine) -> dict:
    """Return the line with its links. plan: the plan at the start of the detail, or empty. detail: the rest of the detail."""
    plan = _PLAN.match(line.detail) if line.action in ACTIONS_OF_PLANS else None
    return {"line": line, "action": action_label(line.action),
            "principal": principal_link_from_text(line.principal) if line.principal else None,
            "address_link": _address_link(line.entity) if line.entity else None,
            "plan": plan[0] if plan else "", "plan_url": reverse("plan", args=[int(plan[1])]) if plan else "",
            "detail": line.detail[plan.end():] if plan else line.detail}


def _address_link(address: str) -> AddressLink:
    try:
        return address_link_to(parse_address(address))
    except AddressError:
        # the kind existed when the line was written, but no longer does
        return AddressLink("entity", "", address)
