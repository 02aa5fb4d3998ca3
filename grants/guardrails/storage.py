"""Store guardrails, for changes and imports."""

from collections.abc import Mapping
from datetime import datetime

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef
from django.utils import timezone

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from grants.active_generation import active_generation
from grants.errors import GuardrailError
from grants.guardrails.rules import (
    Rule,
    contradiction,
    exception_text,
    is_unreachable,
    rule_of,
    with_rules,
)
from grants.journal import JournalEntry
from grants.models import (
    Belonging,
    Form,
    Guardrail,
    GuardrailClause,
    GuardrailException,
    User,
    permission_ids,
)
from grants.policies.principals import group_text, type_and_name
from grants.principal_names import principals_by_name
from grants.querysets import belongings, memberships_in_force
from grants.validity import not_over_condition, question_time


def stored_rules() -> dict[str, Rule]:
    """Return all rules by the name of their guardrail. Runs two queries."""
    return {guardrail.name: rule_of(guardrail) for guardrail in with_rules(Guardrail.objects.all())}


def rule_faults(rules: dict[str, Rule], stored: dict[str, Rule]) -> dict[str, GuardrailError]:
    """Return why rules cannot be written, by name: they name what does not exist, or contradict another one.

    stored: the stored rules. Runs four queries.
    """
    principals = principals_by_name({rule.principal for rule in rules.values() if rule.principal})
    places = {
        Address(clause.kind, clause.key)
        for rule in rules.values()
        if rule.form in (Form.FORBID, Form.FORBID_BOTH)
        for clause in rule.clauses
    }
    registered = entities_at(places)
    faults = {}
    all_rules = stored | rules
    for name, rule in rules.items():
        if rule.principal and rule.principal not in principals:
            field = "forbid.members_of" if rule.form == Form.FORBID else "expect.subject"
            faults[name] = GuardrailError(
                f"{rule.principal} does not exist: add it first, or correct the name", field=field
            )
        elif rule.form in (Form.FORBID, Form.FORBID_BOTH) and (
            missing := next(
                (clause for clause in rule.clauses if Address(clause.kind, clause.key) not in registered),
                None,
            )
        ):
            faults[name] = GuardrailError(
                f"{missing.place} is not registered, so the guardrail matches nothing: correct the address",
                field="forbid.within" if rule.form == Form.FORBID else "forbid_both.within",
            )
        elif fault := contradiction(name, rule, all_rules.items()):
            faults[name] = GuardrailError(fault)
    return faults


def present_conflicts(name: str, rule: Rule, stored: dict[str, Rule]) -> list[str]:
    """Return which stored rules cannot hold together with the rule now: in the active generation, with the present members of
    groups. Runs at most two queries.
    """
    generation = [active_generation().name]
    pairs = [
        (other_name, expects.principal, forbids.principal)
        for other_name, other in stored.items()
        for expects, forbids in ((rule, other), (other, rule))
        if other_name != name and is_unreachable(expects, forbids, generation)
    ]
    users = {type_and_name(user)[1] for _, user, group in pairs if group}
    rows = memberships_in_force().filter(user__username__in=users) if users else Belonging.objects.none()
    members = {
        (f"user:{user}", group_text(group))
        for user, group in rows.values_list("user__username", "group__name")
    }
    return [
        f"it cannot hold together with guardrail {other_name} now"
        for other_name, user, group in pairs
        if not group or (user, group) in members
    ]


def reasons_for_no_match(rules: Mapping[str, Rule]) -> dict[str, str]:
    """Return why rules match nothing now, by name: they are about a kind without entities, or a group without active members.

    Runs one query for each of these kinds, and one for the groups.
    """
    kinds = {rule.clauses[0].kind for rule in rules.values() if rule.form == Form.REQUIRE}
    used_kinds = {
        kind
        for kind in kinds
        if Entity.objects.filter(kind=kind, state__in=(State.LIVE, State.PLANNED)).exists()
    }
    groups = {rule.principal for rule in rules.values() if rule.form == Form.FORBID and rule.principal}
    members = belongings().filter(
        not_over_condition(question_time()), user__is_active=True, group=OuterRef("pk")
    )
    used = Group.objects.filter(Exists(members), name__in={type_and_name(group)[1] for group in groups})
    used_groups = set(map(group_text, used.values_list("name", flat=True)))
    reasons = {}
    for name, rule in rules.items():
        if (kind := rule.clauses[0].kind) in kinds - used_kinds and rule.form == Form.REQUIRE:
            reasons[name] = f"it matches nothing now: there is no entity of kind:{kind}"
        elif rule.form == Form.FORBID and rule.principal in groups - used_groups:
            reasons[name] = f"it matches nothing now: {rule.principal} has no active members"
    return reasons


def guardrail_entry(name: str, rule: Rule) -> JournalEntry:
    """Return the content of the journal line of a written guardrail."""
    return JournalEntry("guardrail-set", rule.principal, detail=f"{name}: {rule.text_without_principal}")


def store_rule(name: str, rule: Rule, *, author: str, principals: dict[str, User | Group]) -> Guardrail:
    """Write a guardrail with its clauses. principals: that of the rule, by written name."""
    principal = principals.get(rule.principal)
    guardrail, _ = Guardrail.objects.update_or_create(
        name=name,
        defaults={
            "form": rule.form,
            "level": rule.level,
            "user": principal if isinstance(principal, User) else None,
            "group": principal if isinstance(principal, Group) else None,
            "at_least": rule.at_least,
            "action": rule.action,
            "decision": rule.decision,
            "reason": rule.reason,
            "changed_by": author,
            "changed_at": timezone.now(),
        },
    )
    guardrail.clauses.all().delete()
    permissions = permission_ids()
    GuardrailClause.objects.bulk_create(
        GuardrailClause(
            guardrail=guardrail,
            side=side,
            permission_id=privilege and permissions[privilege],
            kind=clause.kind,
            key=clause.key,
        )
        for side, clause in enumerate(rule.clauses)
        for privilege in (clause.privileges or (None,))
    )
    return guardrail


def fill_exception(
    row: GuardrailException,
    *,
    principal: User | Group | None,
    place: str,
    owner: str,
    reason: str,
    valid_until: datetime,
    author: str,
) -> None:
    """Set what an exception says. The caller saves it.

    principal: None for everybody. place: a written address; empty for everywhere. owner, author: names.
    """
    row.user = principal if isinstance(principal, User) else None
    row.group = principal if isinstance(principal, Group) else None
    row.kind, _, row.key = place.partition(":")
    row.owner, row.reason, row.valid_until = owner, reason, valid_until
    row.added_by, row.added_at = author, timezone.now()


def exception_entry(row: GuardrailException, *, reason: str = "") -> JournalEntry:
    """Return the content of the journal line of a written exception. reason: replaces the author's reason."""
    detail = f"from {row.guardrail}: {exception_text(row)}"
    return JournalEntry("exception-set", row.principal, row.place, detail=detail, reason=reason)


def exception_end_entry(row: GuardrailException) -> JournalEntry:
    """Return the content of the journal line of an ended exception."""
    return JournalEntry("exception-end", row.principal, row.place, detail=f"from {row.guardrail}")


def guardrail_at(address: Address) -> str:
    """Return the name of a guardrail, or of one with an exception, that names this address; empty for none."""
    named = {"kind": address.kind, "key": address.key}
    for rows in (GuardrailClause.objects.filter(**named), GuardrailException.objects.filter(**named)):
        if name := rows.values_list("guardrail__name", flat=True).first():
            return name
    return ""
