"""The evidence of an item as short sentences, for pages and reports."""

from collections.abc import Callable, Iterator
from datetime import datetime

from django.utils.timezone import localtime

from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import quantity
from grants.models.reviews import Answer, ItemSource, ReviewItem
from grants.policies.principals import group_text
from grants.validity import time_in_words

PLAIN, NOTABLE = "", "warning"


@frozen
class EvidenceLine:
    """One sentence of evidence. level: `warning` for what usually decides the answer."""

    text: str
    level: str = PLAIN


def evidence_lines(
    item: ReviewItem, *, knows_use: bool, time_text: Callable[[datetime], str] = time_in_words
) -> Iterator[EvidenceLine]:
    """Yield the evidence of an item, what usually decides the answer first.

    knows_use: whether any use is recorded, so that an item without a use means something.
    time_text: writes a time; in UTC by default.
    """
    if item.is_principal_active is False:
        yield EvidenceLine("the user is inactive", NOTABLE)
    if item.removal:
        yield EvidenceLine(f"{item.removal.label.lower()} since the review began", NOTABLE)
    if item.is_ended and item.valid_until:
        yield EvidenceLine(f"ended {time_text(item.valid_until)}, so it gives no access", NOTABLE)
    if item.admins_left is not None:
        left = "no ADMIN holder" if item.admins_left == 0 else "only 1 ADMIN holder"
        yield EvidenceLine(f"revoking leaves {left}", NOTABLE)
    if item.entity_state in (State.DELETED, State.PLANNED):
        yield EvidenceLine(f"the entity is {item.entity_state}", NOTABLE)
    if item.redundant_through:
        yield EvidenceLine(f"also through {group_text(item.redundant_through)}", NOTABLE)
    if item.last_used_on:
        yield EvidenceLine(f"last used {item.last_used_on.day} {item.last_used_on:%B %Y}")
    else:
        yield EvidenceLine("no recorded use" if knows_use else "use is not recorded")
    if item.principal_last_sign_in:
        signed_in = localtime(item.principal_last_sign_in)
        yield EvidenceLine(f"signed in {signed_in.day} {signed_in:%B %Y}")
    if item.peers and item.source != ItemSource.ROLE_GROUP:
        yield EvidenceLine(
            f"{item.peer_holders:,} of {item.peers:,} others in {group_text(item.peer_group)} hold it"
        )
    if item.is_new:
        yield EvidenceLine("new since the last review", NOTABLE)
    if item.last_reviewed_at:
        reviewed = localtime(item.last_reviewed_at)
        yield EvidenceLine(
            f"last review: {Answer(item.previous_answer).label.lower()}, {reviewed.day} {reviewed:%B %Y}"
        )
    if item.source == ItemSource.GROUP:
        yield EvidenceLine(quantity(item.reach, "member", "members"))
    if item.source == ItemSource.ROLE_GROUP and item.peer_group:
        directly = f", {item.peer_holders:,} of them directly in the role too" if item.peer_holders else ""
        yield EvidenceLine(f"{quantity(item.peers, 'member', 'members')}{directly}")
    if item.is_membership:
        yield EvidenceLine(f"gives {quantity(item.reach, 'grant', 'grants')}")
    if item.valid_until and not item.is_ended:
        yield EvidenceLine(f"ends {time_text(item.valid_until)}")
    if item.escalated:
        yield EvidenceLine("escalated")
