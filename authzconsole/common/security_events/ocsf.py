"""Write security events in the Open Cybersecurity Schema Framework (OCSF) 1.3.0.

Each event is a dict with all required attributes of its class: Account Change (3001), Authentication (3002),
Authorize Session
(3003), Entity Management (3004), User Access Management (3005) and API Activity (6003).
"""

from collections.abc import Callable

from authzconsole.common.security_events.kinds import FAILURES, EventKind
from authzconsole.models import SecurityEvent

VERSION = "1.3.0"
PRODUCT = {"name": "Authorization console", "vendor_name": "authzconsole"}
SUCCESS, FAILURE = (1, "Success"), (2, "Failure")
INFORMATIONAL, MEDIUM = 1, 3
CREATE, READ, UPDATE, DELETE, OTHER = 1, 2, 3, 4, 99
_READ_METHODS = ("GET", "HEAD", "OPTIONS")
UNKNOWN = "unknown"


def ocsf_event(event: SecurityEvent) -> dict:
    """Return the event as an OCSF object."""
    class_uid, activity_id, members = _CLASSES[EventKind(event.kind)](event)
    status_id, status = FAILURE if event.kind in FAILURES else SUCCESS
    severity_id = (
        MEDIUM
        if event.kind in FAILURES | {EventKind.BREAK_GLASS, EventKind.BREAK_GLASS_START}
        else INFORMATIONAL
    )
    at = int(event.at.timestamp() * 1_000)
    return {
        "activity_id": activity_id,
        "category_uid": class_uid // 1_000,
        "class_uid": class_uid,
        "type_uid": class_uid * 100 + activity_id,
        "time": at,
        "severity_id": severity_id,
        "status_id": status_id,
        "status": status,
        "count": event.count,
        "message": event_sentence(event),
        "metadata": {
            "version": VERSION,
            "product": PRODUCT,
            "uid": str(event.pk),
            "event_code": event.kind,
            "correlation_uid": event.request_id,
            "logged_time": at,
        },
        **members,
    }


def event_sentence(event: SecurityEvent) -> str:
    """Return the event as one line of text."""
    parts = [
        EventKind(event.kind).label,
        f"by {event.account}" if event.account else "",
        f"from {event.address}" if event.address else "",
        event.target,
        event.detail,
        f"({event.count} times)" if event.count > 1 else "",
    ]
    return " ".join(filter(None, parts))


def _user(name: str) -> dict:
    return {"name": name.removeprefix("user:") or UNKNOWN, "type_id": 1}


def _source(event: SecurityEvent) -> dict:
    return {"ip": event.address} if event.address else {"name": UNKNOWN}


def _with_context(event: SecurityEvent, members: dict) -> dict:
    return {"actor": {"user": _user(event.account)}, "src_endpoint": _source(event), **members}


def _authentication(activity_id: int) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    return lambda event: (
        3002,
        activity_id,
        {
            "user": _user(event.account),
            "service": {"name": PRODUCT["name"]},
            "src_endpoint": _source(event),
            "status_detail": event.detail,
        },
    )


def _session(activity_name: str) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    return lambda event: (
        3003,
        OTHER,
        _with_context(
            event,
            {
                "activity_name": activity_name,
                "user": _user(event.account),
                "privileges": [f"see as {event.target}"],
            },
        ),
    )


def _account(activity_name: str) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    return lambda event: (
        3001,
        OTHER,
        _with_context(event, {"activity_name": activity_name, "user": _user(event.target)}),
    )


def _entity(
    activity_id: int, type_: str, activity_name: str = ""
) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    return lambda event: (
        3004,
        activity_id,
        _with_context(
            event,
            {
                "entity": {"name": event.detail or event.target or type_, "type": type_},
                **({"activity_name": activity_name} if activity_name else {}),
            },
        ),
    )


def _stewardship(activity_id: int) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    return lambda event: (
        3005,
        activity_id,
        _with_context(
            event, {"user": _user(event.target), "privileges": [f"data steward of {event.detail or UNKNOWN}"]}
        ),
    )


def _api(
    operation: Callable[[SecurityEvent], tuple[int, str]],
) -> Callable[[SecurityEvent], tuple[int, int, dict]]:
    def members(event: SecurityEvent) -> tuple[int, int, dict]:
        activity_id, name = operation(event)
        return (
            6003,
            activity_id,
            _with_context(
                event,
                {
                    "api": {"operation": name, "request": {"uid": event.request_id}},
                    "resources": [{"name": event.target}],
                },
            ),
        )

    return members


def _denied_operation(event: SecurityEvent) -> tuple[int, str]:
    return READ if event.detail in _READ_METHODS else UPDATE, f"{event.detail} {event.target}"


_CLASSES: dict[EventKind, Callable[[SecurityEvent], tuple[int, int, dict]]] = {
    EventKind.SIGN_IN: _authentication(1),
    EventKind.SIGN_IN_FAILURE: _authentication(1),
    EventKind.BREAK_GLASS: _authentication(1),
    EventKind.BREAK_GLASS_START: _account("Start break-glass access"),
    EventKind.BREAK_GLASS_END: _account("End break-glass access"),
    EventKind.BREAK_GLASS_REVIEW: _account("Review break-glass access"),
    EventKind.SIGN_OUT: _authentication(2),
    EventKind.TOKEN_REJECTED: _authentication(1),
    EventKind.SEE_AS_START: _session("Start to see as another user"),
    EventKind.SEE_AS_STOP: _session("Stop to see as another user"),
    EventKind.DENIAL: _api(_denied_operation),
    EventKind.DOWNLOAD: _api(lambda event: (READ, f"download {event.target}")),
    EventKind.TOKEN_ADD: _entity(CREATE, "API token"),
    EventKind.TOKEN_REVOKE: _entity(DELETE, "API token"),
    EventKind.ROLE_SET: lambda event: (
        3005,
        1,
        _with_context(
            event,
            {"user": _user(event.target), "privileges": [event.detail.rpartition(" to ")[2] or UNKNOWN]},
        ),
    ),
    EventKind.STEWARD_ADD: _stewardship(1),
    EventKind.STEWARD_REMOVE: _stewardship(2),
    EventKind.PASSWORD_SET: lambda event: (3001, 4, _with_context(event, {"user": _user(event.target)})),
    EventKind.FACTOR_ADD: lambda event: (3001, 10, _with_context(event, {"user": _user(event.target)})),
    EventKind.FACTOR_REMOVE: lambda event: (3001, 11, _with_context(event, {"user": _user(event.target)})),
    EventKind.FACTOR_RESET: lambda event: (3001, 11, _with_context(event, {"user": _user(event.target)})),
    EventKind.IDENTITY_LINK: _account("Link identity"),
    EventKind.IDENTITY_UNLINK: _account("Unlink identity"),
    EventKind.GENERATION_ACTIVATE: _entity(UPDATE, "active generation"),
    EventKind.SCHEDULE_ON: _entity(UPDATE, "schedule"),
    EventKind.SCHEDULE_OFF: _entity(UPDATE, "schedule"),
    EventKind.SCHEDULE_CHANGE: _entity(UPDATE, "schedule"),
    EventKind.RUN_START: _entity(CREATE, "analysis run"),
    EventKind.RUN_CANCEL: _entity(OTHER, "analysis run", "Cancel"),
    EventKind.PLAN_DISCARD: _entity(DELETE, "plan"),
    EventKind.SEAL: _entity(UPDATE, "journal"),
    EventKind.STORAGE_IDENTITY: _entity(UPDATE, "storage"),
    EventKind.SESSIONS_END: _account("End sessions"),
    EventKind.SIGN_IN_LIMITS_CLEAR: _account("Clear sign-in limits"),
    EventKind.WEBHOOK_ADD: _entity(CREATE, "webhook"),
    EventKind.WEBHOOK_CHANGE: _entity(UPDATE, "webhook"),
    EventKind.WEBHOOK_DELETE: _entity(DELETE, "webhook"),
    EventKind.REQUEST_APPROVE: _entity(OTHER, "access request", "Approve"),
    EventKind.REQUEST_DENY: _entity(OTHER, "access request", "Deny"),
    EventKind.APPROVERS_SET: _entity(UPDATE, "approvers of a namespace"),
    EventKind.DELEGATION_SET: _entity(UPDATE, "limits of delegation"),
    EventKind.GENERATION_PROPOSE: _entity(OTHER, "active generation", "Propose"),
}
