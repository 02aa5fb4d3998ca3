"""The access requests that wait for a decision in the demo tenant, one about an address that does not exist."""

from datetime import datetime, timedelta

from entities.address import parse_address
from grants.journal import Author
from grants.models import AccessRequest, User
from grants.requests.create import RequestDraft, WantedAccess, create_request

# user, operation, address, days until the end (0 for none), reason
PENDING = (
    (
        "diego.morales",
        "read",
        "dataset:logistics.deliveries.late",
        14,
        "compare late deliveries with cancelled subscriptions",
    ),
    ("kenji.tanaka", "read", "dataset:finance.cost.centres", 0, "bookings of the sandbox"),
    ("bruno.silva", "read", "dataset:finance.payroll.bonuses", 30, "requested by the auditor"),
)


def create_pending_requests(today: datetime) -> list[AccessRequest]:
    """Create the requests. today: the start of the present day."""
    return [_create_request(today, *row) for row in PENDING]


def _create_request(
    today: datetime, name: str, operation: str, address: str, days: int, reason: str
) -> AccessRequest:
    author = Author(name, user_id=User.objects.get(username=name).pk)
    return create_request(
        author=author,
        draft=RequestDraft(
            reason,
            [WantedAccess(parse_address(address), operation)],
            requested_until=today + timedelta(days=days) if days else None,
        ),
    )
