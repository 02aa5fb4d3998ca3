"""Prepare items for display: links, the answer, and the evidence as short sentences."""

from authzconsole.reviews.evidence_lines import evidence_lines
from authzconsole.web.shared.links import PrincipalLink, address_link_to
from authzconsole.web.shared.times.periods import exact_time
from grants.models import User, privilege_of
from grants.models.reviews import Answer, ItemSource, Removal, ReviewItem


def item_row(item: ReviewItem, account: User) -> dict:
    """Return an item with links that the account can open."""
    is_group = item.source == ItemSource.GROUP
    return {
        "item": item,
        "principal": PrincipalLink("group" if is_group else "user", item.principal_name),
        "group": PrincipalLink("group", item.group_name) if item.group_name else None,
        "address_link": address_link_to(item.address, is_linked=account.can_see_all)
        if item.address
        else None,
        "privilege": privilege_of(item.permission_id).value if item.permission_id else "",
        "label": f"{item.principal}, {item.target}",
        "evidence": list(evidence_lines(item, time_text=exact_time)),
        "has_answer": item.answer != Answer.OPEN,
        "is_removed": item.removal != Removal.NONE,
        "answer": Answer(item.answer).label,
    }
