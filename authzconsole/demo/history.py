"""Write the two years of invented changes that lead to the demo tenant, at times in the past.

`history.jsonl` has one change per line: how many days ago and at what time, by whom, what (`do`, a key of
CHANGES), and why. The first line imports `first_day.jsonl`; the last lines lead to `tenant.jsonl`. A grant is a
text with the principal, the entity and the privileges.

The services have no parameter for a time. Instead, this module replaces the clock of its process, which no
request can reach: only the command `bootstrap` calls it, and it refuses a journal that has lines.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from django.db import transaction
from django.utils import timezone

from authzconsole.demo.nights import Nights
from entities.address import parse_address, parse_grantable
from entities.vocabulary import Privilege
from grants.change_set import (
    ActivateGeneration,
    Change,
    Deactivate,
    Delete,
    Grant,
    Include,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
)
from grants.changes import ChangeSet, apply, changed_members, describe_entity
from grants.errors import GrantError
from grants.journal import Author, lock_journal
from grants.models import AccessRequest, User
from grants.plans.apply import apply_plan, discard_plan
from grants.plans.sources.changes import change_set_plan
from grants.policies.catalogue import generation_by_name
from grants.policies.principals import ROLE_PREFIX, group_text
from grants.principals.services import add_group, add_role, add_user
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.tenant import import_tenant

FOLDER = Path(__file__).parent


class _PastClock:
    """The clock of this process while it writes the history.

    It moves only forward, and not into the future.
    """

    def __init__(self) -> None:
        self._real_now = timezone.now
        self._time: datetime | None = None

    def now(self) -> datetime:
        return self._time or self._real_now()

    def set(self, time: datetime) -> None:
        if not (self._time or time) <= time <= self._real_now():
            raise ValueError(f"the history goes from {self._time} to {time}")
        self._time = time


@contextmanager
def _past_clock() -> Iterator[_PastClock]:
    clock = _PastClock()
    with patch.object(timezone, "now", clock.now):
        yield clock


def load_history() -> int:
    """Write the history, and the figures of its last nights. Return the number of journal lines.

    The times depend only on the date of the call. Raise GrantError if the journal has lines.
    """
    with transaction.atomic():
        if lock_journal().revision:
            raise GrantError(
                "the journal has lines already: a history can only be written into an empty journal"
            )
        now, today = timezone.now(), _start_of_day()
        nights = Nights(today)
        with _past_clock() as clock:
            for line in _history():
                time = datetime.strptime(line["time"], "%H:%M")
                at = (
                    today - timedelta(days=line["days_ago"]) + timedelta(hours=time.hour, minutes=time.minute)
                )
                nights.record_until(at, clock.set)
                clock.set(at)
                CHANGES[line["do"]](Author(line["author"], reason=line.get("reason", "")), line)
            nights.record_until(now, clock.set)
        nights.store()
        return lock_journal().revision


def create_pending_requests() -> list[AccessRequest]:
    """Create the access requests at the end of the history now, and return them."""
    return [_request(Author(line["author"]), line) for line in _history() if line["do"] == "request"]


def _history() -> list[dict]:
    return [json.loads(line) for line in (FOLDER / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def _start_of_day() -> datetime:
    return timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)


def _import_first_day(author: Author, line: dict) -> None:
    with (FOLDER / "first_day.jsonl").open("rb") as stream:
        import_tenant(stream=stream, author=author)


def _change_members(author: Author, line: dict) -> None:
    added, removed = (
        list(User.objects.filter(username__in=line.get(name, [])).values_list("pk", flat=True))
        for name in ("add", "remove")
    )
    apply(changed_members(line["group"], added=added, removed=removed), author=author)


def _grants(line: dict) -> ChangeSet:
    """Return the grants to make and to revoke."""
    return ChangeSet.of(
        *(
            verb(principal, parse_grantable(entity), Privilege[privilege])
            for verb in (Grant, Revoke)
            for principal, entity, *privileges in map(str.split, line.get(verb.verb, []))
            for privilege in privileges
        )
    )


def _entity(line: dict) -> dict:
    description = {"description": line["description"]} if "description" in line else {}
    return {"address": parse_address(line["entity"])} | description


def _create_plan(author: Author, line: dict) -> int:
    return change_set_plan.create(author, _grants(line), line["title"]).pk


def _request(author: Author, line: dict) -> AccessRequest:
    """Create an access request. `days`: from the day of the request to the end of the access."""
    return create_request(
        author=Author(author.name, user_id=User.objects.get(username=author.name).pk),
        draft=RequestDraft(
            line["reason"],
            [WantedAccess(parse_address(line["entity"]), line["operation"])],
            requested_until=_start_of_day() + timedelta(days=line["days"]) if "days" in line else None,
        ),
    )


def _makes(change: Callable[[dict], Change]) -> Callable[[Author, dict], object]:
    return lambda author, line: apply(ChangeSet.of(change(line)), author=author)


CHANGES: dict[str, Callable[[Author, dict], object]] = {
    "import_first_day": _import_first_day,
    "activate_generation": _makes(lambda line: ActivateGeneration(generation_by_name(line["name"]))),
    "add_user": lambda author, line: add_user(author=author, name=line["name"], email=line.get("email", "")),
    "deactivate_user": _makes(lambda line: Deactivate(line["name"])),
    "add_group": lambda author, line: add_group(author=author, name=line["name"]),
    "add_role": lambda author, line: add_role(author=author, name=line["name"]),
    "include": _makes(lambda line: Include(line["group"], f"{ROLE_PREFIX}{line['role']}")),
    "remove_group": _makes(lambda line: RemovePrincipal(group_text(line["name"]))),
    "change_members": _change_members,
    "register": _makes(lambda line: Register(**_entity(line))),
    "describe": lambda author, line: describe_entity(author=author, **_entity(line)),
    "delete": _makes(lambda line: Delete(**_entity(line))),
    "recreate": _makes(lambda line: Recreate(**_entity(line))),
    "change_grants": lambda author, line: apply(_grants(line), author=author),
    "apply_plan": lambda author, line: apply_plan(author=author, plan_id=_create_plan(author, line)),
    "discard_plan": lambda author, line: discard_plan(author=author, plan_id=_create_plan(author, line)),
    "request": _request,
}
