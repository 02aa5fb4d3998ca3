"""How a line of the journal is shown: whom and what it names as links, and the plan that it belongs to."""

import re

from django.urls import reverse

from authzconsole.web.shared.links import AddressLink, address_link_to, principal_link_from_text
from entities.address import AddressError, parse_address
from grants.models import JournalLine

# what these lines say begins with their plan; of others it is free text
OF_PLANS = {"plan", "plan-apply", "grant", "revoke"}
_PLAN = re.compile(r"plan (\d{1,18})(?=:|$)")


def journal_line_shown(line: JournalLine) -> dict:
    """plan: what the detail begins with, where that is a plan; detail: the rest of it."""
    plan = _PLAN.match(line.detail) if line.action in OF_PLANS else None
    return {"line": line, "principal": principal_link_from_text(line.principal) if line.principal else None,
            "address_link": _place(line.entity) if line.entity else None,
            "plan": plan[0] if plan else "", "plan_url": reverse("plan", args=[int(plan[1])]) if plan else "",
            "detail": line.detail[plan.end():] if plan else line.detail}


def _place(address: str) -> AddressLink:
    try:
        return address_link_to(parse_address(address))
    except AddressError:
        # of a kind that this console had when the line was written
        return AddressLink("entity", "", address)
