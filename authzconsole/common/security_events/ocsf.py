"""Write security events in the Open Cybersecurity Schema Framework (OCSF) 1.3.0.

Each event is a dict with all required attributes of its class.
"""

from collections.abc import Callable

from authzconsole.common.security_events.record import FAILURES, EventKind
from authzconsole.models import SecurityEvent

VERSION = "1.3.0"
PRODUCT = {"name": "Authorization console", "vendor_name": "authzconsole"}
SUCCESS, FAILURE = (1, "Success"), (2, "Failure")
INFORMATIONAL, MEDIUM = 1, 3
# the classes: Account Change, Authentication, Authorize Session, Entity Management, User Access Management,
# and API Activity
ACCOUNT, AUTHENTICATION, SESSION, ENTITY, ACCESS, API = 3001, 3002, 3003, 3004, 3005, 6003
CREATE, READ, UPDATE, DELETE, OTHER = 1, 2, 3, 4, 99
_READ_METHODS = ("GET", "HEAD", "OPTIONS")
UNKNOWN = "unknown"
# the members of an event that belong to its class
Members = Callable[[SecurityEvent], dict]


def ocsf_event(event: SecurityEvent) -> dict:
    """Return the event as an OCSF object."""
    class_uid, activity_id, activity_name, members = _CLASSES[EventKind(event.kind)]
    if event.kind == EventKind.DENIAL and event.detail in _READ_METHODS:
        activity_id = READ
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
        "src_endpoint": {"ip": event.address} if event.address else {"name": UNKNOWN},
        **({"actor": {"user": _user(event.account)}} if class_uid != AUTHENTICATION else {}),
        **({"activity_name": activity_name} if activity_name else {}),
        **members(event),
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


def _sign_in(event: SecurityEvent) -> dict:
    return {
        "user": _user(event.account),
        "service": {"name": PRODUCT["name"]},
        "status_detail": event.detail,
    }


def _seen_user(event: SecurityEvent) -> dict:
    return {"user": _user(event.account), "privileges": [f"see as {event.target}"]}


def _target_user(event: SecurityEvent) -> dict:
    return {"user": _user(event.target)}


def _role(event: SecurityEvent) -> dict:
    return _target_user(event) | {"privileges": [event.detail.rpartition(" to ")[2] or UNKNOWN]}


def _steward(event: SecurityEvent) -> dict:
    return _target_user(event) | {"privileges": [f"data steward of {event.detail or UNKNOWN}"]}


def _entity(type_: str) -> Members:
    return lambda event: {"entity": {"name": event.detail or event.target or type_, "type": type_}}


def _request(event: SecurityEvent) -> dict:
    name = "download" if event.kind == EventKind.DOWNLOAD else event.detail
    return {
        "api": {"operation": f"{name} {event.target}", "request": {"uid": event.request_id}},
        "resources": [{"name": event.target}],
    }


# class, activity, name of the activity, members
_CLASSES: dict[EventKind, tuple[int, int, str, Members]] = {
    EventKind.SIGN_IN: (AUTHENTICATION, 1, "", _sign_in),
    EventKind.SIGN_IN_FAILURE: (AUTHENTICATION, 1, "", _sign_in),
    EventKind.BREAK_GLASS: (AUTHENTICATION, 1, "", _sign_in),
    EventKind.BREAK_GLASS_START: (ACCOUNT, OTHER, "Start break-glass access", _target_user),
    EventKind.BREAK_GLASS_END: (ACCOUNT, OTHER, "End break-glass access", _target_user),
    EventKind.BREAK_GLASS_REVIEW: (ACCOUNT, OTHER, "Review break-glass access", _target_user),
    EventKind.SIGN_OUT: (AUTHENTICATION, 2, "", _sign_in),
    EventKind.TOKEN_REJECTED: (AUTHENTICATION, 1, "", _sign_in),
    EventKind.SEE_AS_START: (SESSION, OTHER, "Start to see as another user", _seen_user),
    EventKind.SEE_AS_STOP: (SESSION, OTHER, "Stop to see as another user", _seen_user),
    EventKind.DENIAL: (API, UPDATE, "", _request),
    EventKind.DOWNLOAD: (API, READ, "", _request),
    EventKind.TOKEN_ADD: (ENTITY, CREATE, "", _entity("API token")),
    EventKind.TOKEN_REVOKE: (ENTITY, DELETE, "", _entity("API token")),
    EventKind.ROLE_SET: (ACCESS, 1, "", _role),
    EventKind.STEWARD_ADD: (ACCESS, 1, "", _steward),
    EventKind.STEWARD_REMOVE: (ACCESS, 2, "", _steward),
    EventKind.PASSWORD_SET: (ACCOUNT, 4, "", _target_user),
    EventKind.FACTOR_ADD: (ACCOUNT, 10, "", _target_user),
    EventKind.FACTOR_REMOVE: (ACCOUNT, 11, "", _target_user),
    EventKind.FACTOR_RESET: (ACCOUNT, 11, "", _target_user),
    EventKind.IDENTITY_LINK: (ACCOUNT, OTHER, "Link identity", _target_user),
    EventKind.IDENTITY_UNLINK: (ACCOUNT, OTHER, "Unlink identity", _target_user),
    EventKind.GENERATION_ACTIVATE: (ENTITY, UPDATE, "", _entity("active generation")),
    EventKind.SCHEDULE_ON: (ENTITY, UPDATE, "", _entity("schedule")),
    EventKind.SCHEDULE_OFF: (ENTITY, UPDATE, "", _entity("schedule")),
    EventKind.SCHEDULE_CHANGE: (ENTITY, UPDATE, "", _entity("schedule")),
    EventKind.RUN_START: (ENTITY, CREATE, "", _entity("analysis run")),
    EventKind.RUN_CANCEL: (ENTITY, OTHER, "Cancel", _entity("analysis run")),
    EventKind.PLAN_DISCARD: (ENTITY, DELETE, "", _entity("plan")),
    EventKind.SEAL: (ENTITY, UPDATE, "", _entity("journal")),
    EventKind.STORAGE_IDENTITY: (ENTITY, UPDATE, "", _entity("storage")),
    EventKind.SESSIONS_END: (ACCOUNT, OTHER, "End sessions", _target_user),
    EventKind.SIGN_IN_LIMITS_CLEAR: (ACCOUNT, OTHER, "Clear sign-in limits", _target_user),
    EventKind.WEBHOOK_ADD: (ENTITY, CREATE, "", _entity("webhook")),
    EventKind.WEBHOOK_CHANGE: (ENTITY, UPDATE, "", _entity("webhook")),
    EventKind.WEBHOOK_DELETE: (ENTITY, DELETE, "", _entity("webhook")),
    EventKind.REQUEST_APPROVE: (ENTITY, OTHER, "Approve", _entity("access request")),
    EventKind.REQUEST_DENY: (ENTITY, OTHER, "Deny", _entity("access request")),
    EventKind.APPROVERS_SET: (ENTITY, UPDATE, "", _entity("approvers of a namespace")),
    EventKind.DELEGATION_SET: (ENTITY, UPDATE, "", _entity("limits of delegation")),
    EventKind.GENERATION_PROPOSE: (ENTITY, OTHER, "Propose", _entity("active generation")),
}
