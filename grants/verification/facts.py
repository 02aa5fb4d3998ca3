"""Translate journal lines and table rows to facts: what the console contains after a line, and what its
tables contain.

A fact is a key and a value. The key has the type of the fact and names in written form, separated by
SEPARATOR, which no name contains.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator

from django.contrib.auth.models import Group

from entities.models import Entity, State
from grants.authority.limits import stored_limits
from grants.bulk_rows import stream_rows
from grants.guardrails.rules import exception_text, rule_of, with_rules
from grants.journal_details import parse_detail
from grants.models import (
    ActiveGeneration,
    Guardrail,
    GuardrailException,
    JournalLine,
    NamespaceApprovers,
    NamespaceSteward,
    Plan,
    PublishedItem,
    Role,
    RoleGroup,
    User,
    all_grants,
    permission_ids,
)
from grants.policies.principals import group_text
from grants.validity import VALIDITY_COLUMNS, Validity, format_period, parse_period

SEPARATOR = "\x1f"
# between a name and the revision of the rename after which another principal may have the name; in no name
REUSED = "\x1e"
HELD = "held"
# facts that only the journal of a newer version states
OPTIONAL_TYPES = ("secret", "webhook-content")
# what a line allows, but the tables need not contain: the removal of a group ends its approval without a line
# about it, and deliveries that fail disable a webhook; the periods of the history contain names
ALLOWED_TYPES = ("unlimited", "approvers", "webhook-enabled", "name")
PLAN_CREATE, EVENTS_SEAL = "plan-create", "events-seal"
TOKEN_TYPES = ("token", "revoked", "secret", "unlimited")
APP_TITLE, CODES_TITLE, PASSKEY_PREFIX = "authenticator app", "recovery codes", "passkey "
_STATES = {"plan": State.PLANNED, "register": State.LIVE, "recreate": State.LIVE, "delete": State.DELETED}
_NEW_TOKEN = re.compile(
    r"\(number (\d+)\) for ([a-z, ]+), until (\d{4}-\d\d-\d\d)(?:, fingerprint ([0-9a-f]{16}))?$", re.ASCII
)
_TOKEN = re.compile(r"\(number (\d+)\)$", re.ASCII)
_IDENTITY = re.compile(r"provider: (.+?), subject: (.*)", re.DOTALL)
_PLAN = re.compile(r"plan (\d+): .*; content ([0-9a-f]{64})", re.ASCII | re.DOTALL)
_WEBHOOK = re.compile(
    r"webhook (\d+), (https?://[^ ]+?)(?:: ([^;]*))?(?:; content ([0-9a-f]{64}))?", re.ASCII
)
_GUARDRAIL = re.compile(r"([A-Za-z0-9_.-]+)(?:: (.*))?", re.ASCII | re.DOTALL)
_EXCEPTION = re.compile(r"from ([A-Za-z0-9_.-]+)(?:: (.*))?", re.ASCII | re.DOTALL)
_EVENTS = re.compile(r"events (\d+) to (\d+): (.*)", re.ASCII)
_TITLES = {
    "grant": "the grant of {2} on {1} to {0}",
    "member": "the membership of {0} in {1}",
    "entity": "the state of {0}",
    "active": "the status of {0}",
    "role": "the console role of {0}",
    "service": "{0} as a service account",
    "group": "{0}",
    "token": "the token {0}",
    "revoked": "the revocation of token {0}",
    "secret": "the secret of token {0}",
    "unlimited": "the right of token {0} to ask about all subjects",
    "factor": "the {1} of {0}",
    "passkeys": "the number of passkeys of {0}",
    "identity": "the account of the identity {1} at {0}",
    "generation": "the active generation",
    "steward": "{0} as data steward of {1}",
    "delegation": "the limits of delegation",
    "approvers": "the group of approvers of {0}",
    "published": "the entry of {0} in the catalogue",
    "plan": "the content of plan {0}",
    "webhook": "webhook {0}",
    "webhook-content": "the content of webhook {0}",
    "webhook-enabled": "the status of webhook {0}",
    "guardrail": "guardrail {0}",
    "guardrail-principal": "the principal of guardrail {0}",
    "exception": "the exception of {1} on {2} from guardrail {0}",
    "events": "the content of security events {0} to {1}",
    "name": "the name of {0}",
}
_COLUMNS = [
    JournalLine.HASHED.index(name) for name in ("action", "principal", "entity", "privilege", "detail")
]
_ACTION, _PRINCIPAL, _ENTITY, _PRIVILEGE, _DETAIL = _COLUMNS

_ITEM_COLUMNS = (
    "position",
    "verb",
    "principal_type",
    "principal_name",
    "kind",
    "key",
    "namespace",
    "group_name",
)

Fact = tuple[str, str | None]


def fact_key(type_: str, *names: object) -> str:
    return SEPARATOR.join((type_, *map(str, names)))


def held_value(period: Validity) -> str:
    """Return the value of the fact that a grant or a membership exists: `held`, and its period if it has
    limits.
    """
    return f"{HELD} {format_period(period)}" if period.is_limited else HELD


def period_of_value(value: str) -> Validity:
    """Return the period in a value of `held_value`."""
    return parse_period(value.removeprefix(HELD).lstrip())[0]


def title_of(key: str) -> str:
    """Return the name of a fact in an error message."""
    type_, *names = key.split(SEPARATOR)
    return _TITLES[type_].format(*(name.partition(REUSED)[0] for name in names))


def facts_of_line(values: tuple, passkeys: Counter[str]) -> list[Fact]:
    """Return the facts that a journal line sets; the value None removes a fact.

    values: in the order of `JournalLine.HASHED`. passkeys: the number of passkeys of each account before the
    line; it is updated.
    """
    action, principal, entity = values[_ACTION], values[_PRINCIPAL], values[_ENTITY]
    match action:
        case "grant" | "revoke":
            value = held_value(parse_detail(values[_DETAIL]).period) if action == "grant" else None
            return [(fact_key("grant", principal, entity, values[_PRIVILEGE]), value)]
        case "plan" | "register" | "recreate" | "delete":
            is_removed = action == "delete" and values[_DETAIL] == "it was planned"
            return [(fact_key("entity", entity), None if is_removed else str(_STATES[action]))]
        case "delegation-set":
            return [(fact_key("delegation"), values[_DETAIL])]
        case "approvers-set":
            return [(fact_key("approvers", entity), principal or None)]
        case "catalogue-publish":
            return [(fact_key("published", entity), values[_DETAIL])]
        case "catalogue-withdraw":
            return [(fact_key("published", entity), None)]
        case "steward-add" | "steward-remove":
            return [(fact_key("steward", principal, entity), HELD if action == "steward-add" else None)]
        case "member-add" | "member-remove":
            detail = parse_detail(values[_DETAIL])
            return [
                (
                    fact_key("member", principal, detail.rest),
                    held_value(detail.period) if action == "member-add" else None,
                )
            ]
        case "group-add" | "group-remove":
            return [(fact_key("group", principal), "known" if action == "group-add" else None)]
        case "user-remove":
            return [(fact_key(type_, principal), None) for type_ in ("active", "role", "service")]
        case "user-add":
            return _facts_of_new_user(principal, values[_DETAIL])
        case "user-activate" | "user-deactivate":
            return [(fact_key("active", principal), "active" if action == "user-activate" else "inactive")]
        case "user-change":
            return _facts_of_changed_user(principal, values[_DETAIL])
        case "role-set":
            return [(fact_key("role", principal), values[_DETAIL].rpartition(" to ")[2])]
        case "token-remove":
            number = _TOKEN.search(values[_DETAIL])
            return [(fact_key(type_, number[1]), None) for type_ in TOKEN_TYPES] if number else []
        case "token-add" | "token-revoke":
            return _facts_of_token(action, principal, values[_DETAIL])
        case "factor-add" | "factor-remove":
            return [_fact_of_factor(principal, values[_DETAIL], passkeys, is_added=action == "factor-add")]
        case "factor-reset":
            del passkeys[principal]
            return [
                (fact_key("factor", principal, APP_TITLE), None),
                (fact_key("factor", principal, CODES_TITLE), None),
                (fact_key("passkeys", principal), None),
            ]
        case "identity-link" | "identity-unlink":
            match = _IDENTITY.fullmatch(values[_DETAIL])
            return (
                [(fact_key("identity", *match.groups()), principal if action == "identity-link" else None)]
                if match
                else []
            )
        case "generation-activate":
            return [(fact_key("generation"), values[_DETAIL].rpartition(" to ")[2])]
        case "plan-create":
            match = _PLAN.fullmatch(values[_DETAIL])
            return [(fact_key("plan", match[1]), match[2])] if match else []
        case "webhook-add" | "webhook-change" | "webhook-delete":
            return _facts_of_webhook(action, values[_DETAIL])
        case "guardrail-set" | "guardrail-delete":
            match = _GUARDRAIL.fullmatch(values[_DETAIL])
            return (
                [
                    (fact_key("guardrail", match[1]), match[2]),
                    (fact_key("guardrail-principal", match[1]), principal or None),
                ]
                if match
                else []
            )
        case "exception-set" | "exception-end":
            match = _EXCEPTION.fullmatch(values[_DETAIL])
            return [(fact_key("exception", match[1], principal, entity), match[2])] if match else []
        case "events-seal":
            match = _EVENTS.fullmatch(values[_DETAIL])
            return [(fact_key("events", match[1], match[2]), match[3])] if match else []
    return []


def previous_generation(values: tuple) -> str | None:
    """Return the generation that was active before a line that activates another one; None for other lines.

    values: in the order of `JournalLine.HASHED`.
    """
    before, _, _ = values[_DETAIL].removeprefix("from ").rpartition(" to ")
    return before if values[_ACTION] == "generation-activate" and before else None


def _facts_of_webhook(action: str, detail: str) -> list[Fact]:
    if (match := _WEBHOOK.fullmatch(detail)) is None:
        return []
    number, origin, text, content = match.groups()
    enabled: Fact = (fact_key("webhook-enabled", number), None if text == "disabled" else "enabled")
    if action == "webhook-add":
        facts: list[Fact] = [(fact_key("webhook", number), f"{origin}: {text}"), enabled]
        # earlier versions wrote no digests
        return [*facts, (fact_key("webhook-content", number), content)] if content else facts
    if action == "webhook-change":
        return [enabled] if text in ("enabled", "disabled") else []
    return [(fact_key(type_, number), None) for type_ in ("webhook", "webhook-content", "webhook-enabled")]


def _facts_of_new_user(principal: str, detail: str) -> list[Fact]:
    parts = detail.split(", ")
    role = next(
        (part.removeprefix("role: ") for part in parts if part.startswith("role: ")), str(Role.ORDINARY)
    )
    facts: list[Fact] = [
        (fact_key("active", principal), "inactive" if "inactive" in parts else "active"),
        (fact_key("role", principal), role),
    ]
    return [*facts, (fact_key("service", principal), "yes")] if "service account" in parts else facts


def _facts_of_changed_user(principal: str, detail: str) -> list[Fact]:
    """Return the status in a line of an import by version 1.0.

    Newer imports write `user-activate` and `user-deactivate`.
    """
    for value, status in (("true", "active"), ("false", "inactive")):
        if detail == f"active: {value}" or detail.startswith(f"active: {value}, email: "):
            return [(fact_key("active", principal), status)]
    return []


def _facts_of_token(action: str, principal: str, detail: str) -> list[Fact]:
    if action == "token-revoke":
        match = _TOKEN.search(detail)
        return [(fact_key("revoked", match[1]), "yes")] if match else []
    if (match := _NEW_TOKEN.search(detail)) is None:
        return []
    number, scopes, until, fingerprint = match.groups()
    facts: list[Fact] = [(fact_key("token", number), f"{principal}, {scopes}, until {until}")]
    if fingerprint:
        return [*facts, (fact_key("secret", number), fingerprint)]
    # version 1.0 wrote no fingerprints; the upgrade lets some of its tokens ask about all subjects
    return [*facts, (fact_key("unlimited", number), "yes")] if "decide" in scopes.split(", ") else facts


def _fact_of_factor(principal: str, title: str, passkeys: Counter[str], *, is_added: bool) -> Fact:
    """Return the fact about a second factor. Passkeys are counted, because two can have the same name."""
    if not title.startswith(PASSKEY_PREFIX):
        return fact_key("factor", principal, title), HELD if is_added else None
    passkeys[principal] += 1 if is_added else -1
    return fact_key("passkeys", principal), str(passkeys[principal]) if passkeys[principal] else None


def facts_of_tables() -> Iterator[Fact]:
    """Yield the facts of the tables of this package, in the order of their keys within each table."""
    for grants in all_grants():
        for principal, address, privilege, *period in grants.grant_keys(*VALIDITY_COLUMNS):
            yield fact_key("grant", principal, str(address), privilege), held_value(Validity(*period))
    members = User.groups.through.objects.all()
    for user, group, *period in stream_rows(members, "user__username", "group__name", *VALIDITY_COLUMNS):
        yield fact_key("member", f"user:{user}", group_text(group)), held_value(Validity(*period))
    for group, role, *period in stream_rows(
        RoleGroup.objects.all(), "group__name", "role__name", *VALIDITY_COLUMNS
    ):
        yield fact_key("member", group_text(group), group_text(role)), held_value(Validity(*period))
    for entity_kind, key, state in stream_rows(Entity.objects.all(), "kind", "key", "state"):
        yield fact_key("entity", f"{entity_kind}:{key}"), state
    for (name,) in stream_rows(Group.objects.all(), "name"):
        yield fact_key("group", group_text(name)), "known"
    users = stream_rows(User.objects.all(), "username", "is_active", "role", "is_service")
    for name, is_active, role, is_service in users:
        yield fact_key("active", f"user:{name}"), "active" if is_active else "inactive"
        yield fact_key("role", f"user:{name}"), role
        if is_service:
            yield fact_key("service", f"user:{name}"), "yes"
    for steward in NamespaceSteward.objects.select_related("user", "group"):
        yield fact_key("steward", steward.principal, steward.address), HELD
    for approvers in NamespaceApprovers.objects.select_related("group"):
        yield fact_key("approvers", approvers.address), group_text(approvers.group.name)
    for item in PublishedItem.objects.select_related("entity"):
        yield fact_key("published", item.entity), item.text
    for limits in stored_limits():
        yield fact_key("delegation"), limits.text
    yield from _facts_of_guardrails()
    for name in ActiveGeneration.objects.filter(pk=1).values_list("name", flat=True):
        yield fact_key("generation"), name
    yield from _facts_of_plans()


def _facts_of_guardrails() -> Iterator[Fact]:
    for guardrail in with_rules(Guardrail.objects.all()):
        yield fact_key("guardrail", guardrail.name), rule_of(guardrail).text_without_principal
        if guardrail.principal:
            yield fact_key("guardrail-principal", guardrail.name), guardrail.principal
    for row in GuardrailException.objects.select_related("guardrail", "user", "group"):
        yield fact_key("exception", row.guardrail.name, row.principal, row.place), exception_text(row)


def _facts_of_plans() -> Iterator[Fact]:
    """Yield the digests of plans. Plans of earlier versions have no line about their creation."""
    if (first := first_plan_in_journal()) is not None:
        for plan in Plan.objects.filter(pk__gte=first).order_by("pk").iterator():
            yield fact_key("plan", plan.pk), plan_digest(plan)


def first_plan_in_journal() -> int | None:
    """Return the number of the first plan whose creation has a journal line. Runs one query."""
    details = (
        JournalLine.objects.filter(action=PLAN_CREATE).order_by("revision").values_list("detail", flat=True)
    )
    match = next((match for detail in details[:1] if (match := _PLAN.fullmatch(detail))), None)
    return int(match[1]) if match else None


def plan_digest(plan: Plan) -> str:
    """Return the SHA-256 of what a plan proposes and who made it: what never changes after its creation.

    Reads the items in bounded memory, with one query.
    """
    privileges = {pk: str(privilege) for privilege, pk in permission_ids().items()}
    digest = hashlib.sha256()
    head = plan.pk, plan.origin, plan.title, plan.made_by, sorted(plan.maker_ids), plan.inverse_of_id
    digest.update(json.dumps(head).encode())
    for permission, valid_from, valid_until, *row in stream_rows(
        plan.items.order_by("position"), "permission_id", *VALIDITY_COLUMNS, *_ITEM_COLUMNS
    ):
        values = *row, privileges.get(permission, ""), format_period(Validity(valid_from, valid_until))
        digest.update(json.dumps(values).encode())
    return digest.hexdigest()
