"""Ship security events to syslog and to a file, in order and at least once, as text, JSON Lines or objects of the
Open Cybersecurity Schema Framework (OCSF) 1.3.0.

The cursor of each target is a row, so a target that is down or a restart loses no event. Batches are small:
after a failure, the events of one batch can arrive twice.
"""

import json
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from authzconsole.common import output
from authzconsole.common.security_events.record import FAILURES, EventKind
from authzconsole.models import SecurityEvent, SecurityEventTarget
from grants.jobs import JobContext, JobResult, repeat_job

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
# class, activity, name of the activity, members
Class = tuple[int, int, str, Members]


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


def _change_of(type_: str, activity: int, name: str = "") -> Class:
    """Return the class of changes of entities of this type. name: of another activity."""
    return (
        ENTITY,
        activity,
        name,
        lambda event: {"entity": {"name": event.detail or event.target or type_, "type": type_}},
    )


def _request(event: SecurityEvent) -> dict:
    name = "download" if event.kind == EventKind.DOWNLOAD else event.detail
    return {
        "api": {"operation": f"{name} {event.target}", "request": {"uid": event.request_id}},
        "resources": [{"name": event.target}],
    }


_CLASSES: dict[EventKind, Class] = {
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
    EventKind.TOKEN_ADD: _change_of("API token", CREATE),
    EventKind.TOKEN_REVOKE: _change_of("API token", DELETE),
    EventKind.ROLE_SET: (ACCESS, 1, "", _role),
    EventKind.STEWARD_PROPOSE: (ACCESS, OTHER, "Propose", _steward),
    EventKind.STEWARD_ADD: (ACCESS, 1, "", _steward),
    EventKind.STEWARD_REMOVE: (ACCESS, 2, "", _steward),
    EventKind.PASSWORD_SET: (ACCOUNT, 4, "", _target_user),
    EventKind.FACTOR_ADD: (ACCOUNT, 10, "", _target_user),
    EventKind.FACTOR_REMOVE: (ACCOUNT, 11, "", _target_user),
    EventKind.FACTOR_RESET: (ACCOUNT, 11, "", _target_user),
    EventKind.IDENTITY_LINK: (ACCOUNT, OTHER, "Link identity", _target_user),
    EventKind.IDENTITY_UNLINK: (ACCOUNT, OTHER, "Unlink identity", _target_user),
    EventKind.GENERATION_ACTIVATE: _change_of("active generation", UPDATE),
    EventKind.SCHEDULE_ON: _change_of("schedule", UPDATE),
    EventKind.SCHEDULE_OFF: _change_of("schedule", UPDATE),
    EventKind.SCHEDULE_CHANGE: _change_of("schedule", UPDATE),
    EventKind.RUN_START: _change_of("analysis run", CREATE),
    EventKind.RUN_CANCEL: _change_of("analysis run", OTHER, "Cancel"),
    EventKind.PLAN_DISCARD: _change_of("plan", DELETE),
    EventKind.SEAL: _change_of("journal", UPDATE),
    EventKind.STORAGE_IDENTITY: _change_of("storage", UPDATE),
    EventKind.SESSIONS_END: (ACCOUNT, OTHER, "End sessions", _target_user),
    EventKind.SIGN_IN_LIMITS_CLEAR: (ACCOUNT, OTHER, "Clear sign-in limits", _target_user),
    EventKind.WEBHOOK_ADD: _change_of("webhook", CREATE),
    EventKind.WEBHOOK_CHANGE: _change_of("webhook", UPDATE),
    EventKind.WEBHOOK_DELETE: _change_of("webhook", DELETE),
    EventKind.REQUEST_APPROVE: _change_of("access request", OTHER, "Approve"),
    EventKind.REQUEST_DENY: _change_of("access request", OTHER, "Deny"),
    EventKind.APPROVERS_PROPOSE: _change_of("approvers of a namespace", OTHER, "Propose"),
    EventKind.APPROVERS_SET: _change_of("approvers of a namespace", UPDATE),
    EventKind.DELEGATION_SET: _change_of("limits of delegation", UPDATE),
    EventKind.GENERATION_PROPOSE: _change_of("active generation", OTHER, "Propose"),
}


logger = logging.getLogger(__name__)

SHIPPING_JOB = "security-event-shipping"
EVENTS_PER_BATCH = 200
MAX_SECONDS = 20
# numbers are assigned before the transaction commits, so a row with a higher number can become visible first
SETTLE_SECONDS = 2
SYSLOG_SECONDS = 5
AUTHPRIV, WARNING, NOTICE = 10, 4, 5
APP_NAME = "authzconsole"
# the example number of RFC 5612, because this product has no enterprise number
STRUCTURED_DATA_ID = "authzconsole@32473"
DATA_MEMBERS = ("kind", "account", "address", "target", "request_id", "token", "count")


class SecurityEventSerializer(output.Output):
    """An event, in REST, in downloads and in shipped JSON Lines."""

    id = output.Integer(source="pk", example=41)
    at = output.Time(timespec="milliseconds")
    kind = output.Text(example="sign-in-failure")
    account = output.Text(help_text="The account that acted; for a failed sign-in, the entered name.")
    address = output.Text(example="192.0.2.7", help_text="The client address; empty for commands.")
    target = output.Text(help_text="The principal, path or file that the event is about.")
    detail = output.Text()
    request_id = output.Text(help_text="The id that the console gave to the request.")
    token = output.Integer(allow_null=True, help_text="The number of the API token of the request.")
    count = output.Integer(example=1, help_text="The number of equal events that this one stands for.")


def start_shipping() -> None:
    """Start the job of each target for which there are new events."""
    for name in _target_names():
        target, _ = SecurityEventTarget.objects.get_or_create(name=name)
        if SecurityEvent.objects.filter(pk__gt=target.shipped_to).exists():
            repeat_job(target, SHIPPING_JOB)


def ship_next_events(context: JobContext) -> JobResult:
    """Ship the next events to the target of a job. A failure is logged and counted, not raised."""
    target = SecurityEventTarget.objects.filter(job=context.job, name__in=_target_names()).first()
    return JobResult({"shipped": ship_batches(target) if target else 0})


def _target_names() -> list[str]:
    names = [f"syslog {settings.SECURITY_EVENTS_SYSLOG}"] if settings.SECURITY_EVENTS_SYSLOG else []
    return names + ([f"file {settings.SECURITY_EVENTS_FILE}"] if settings.SECURITY_EVENTS_FILE else [])


def ship_batches(target: SecurityEventTarget) -> int:
    """Ship new events to the target for at most MAX_SECONDS, and return their number."""
    shipped, deadline = 0, timezone.now() + timedelta(seconds=MAX_SECONDS)
    while timezone.now() < deadline:
        settled = timezone.now() - timedelta(seconds=SETTLE_SECONDS)
        rows = SecurityEvent.objects.filter(pk__gt=target.shipped_to).order_by("pk")
        events = []
        for event in rows[:EVENTS_PER_BATCH]:
            if event.at > settled:
                break
            events.append(event)
        if not events:
            break
        try:
            _send(target.name, events)
        except OSError as error:
            logger.error(
                "security events could not be shipped to %s (%s); the next attempt follows",
                target.name,
                error,
            )
            SecurityEventTarget.objects.filter(pk=target.pk).update(
                failures=F("failures") + 1, error=str(error)[:300]
            )
            break
        target.shipped_to = events[-1].pk
        SecurityEventTarget.objects.filter(pk=target.pk).update(
            shipped_to=target.shipped_to, failures=0, error=""
        )
        shipped += len(events)
    return shipped


def _send(name: str, events: Sequence[SecurityEvent]) -> None:
    type_, _, address = name.partition(" ")
    is_ocsf = settings.SECURITY_EVENTS_FORMAT == "ocsf"
    if type_ == "syslog":
        send_to_syslog(
            address,
            [
                syslog_message(event, json.dumps(ocsf_event(event)) if is_ocsf else event_sentence(event))
                for event in events
            ],
        )
        return
    lines = "".join(
        f"{json.dumps(ocsf_event(event) if is_ocsf else SecurityEventSerializer.data_of(event))}\n"
        for event in events
    )
    with open(os.open(address, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def syslog_message(event: SecurityEvent, text: str) -> bytes:
    """Return the message of an event: header, structured data and text."""
    priority = AUTHPRIV * 8 + (WARNING if event.kind in FAILURES else NOTICE)
    at = event.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    header = f"<{priority}>1 {at} {socket.gethostname()[:255] or '-'} {APP_NAME} {os.getpid()} {event.kind}"
    values = {"id": event.pk, **{name: getattr(event, name) for name in DATA_MEMBERS}}
    data = " ".join(
        f'{name}="{_escape(str(value))}"' for name, value in values.items() if value not in ("", None)
    )
    return f"{header} [{STRUCTURED_DATA_ID} {data}] \N{BYTE ORDER MARK}{text}".encode()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def send_to_syslog(target: str, messages: Iterable[bytes]) -> None:
    """Send the messages. target: `udp:HOST:PORT`, `tcp:HOST:PORT` or `unix:/PATH`.

    Raise OSError on failure.
    """
    protocol, _, address = target.partition(":")
    with _connected_socket(protocol, address) as connection:
        for message in messages:
            # octet counting (RFC 6587), because a message can contain line feeds
            connection.sendall(f"{len(message)} ".encode() + message if protocol == "tcp" else message)


def _connected_socket(protocol: str, address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    if protocol == "tcp":
        return socket.create_connection((host.strip("[]"), int(port)), SYSLOG_SECONDS)
    family, destination = socket.AF_UNIX, address
    if protocol == "udp":
        family, *_, destination = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.settimeout(SYSLOG_SECONDS)
    # connected, so that a closed port is reported by the next message
    datagrams.connect(destination)
    return datagrams
