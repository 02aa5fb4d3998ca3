"""Write guardrails and the exceptions from them, and their journal lines.

With FOUR_EYES, the first of two administrators only proposes such a change (grants.authority.proposals).
"""

from itertools import islice

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import parse_address
from entities.selectors import entity_at
from entities.text import storage_fault
from entities.vocabulary import clip, quantity
from grants.authority.proposals import propose_first
from grants.change_set import (
    DeleteGuardrail,
    EndException,
    GuardrailChange,
    SetException,
    SetGuardrail,
)
from grants.errors import GuardrailError, GuardrailViolated
from grants.guardrails.exceptions import open_violations
from grants.guardrails.rules import (
    check_guardrail_name,
    exception_text,
    rule_from_text,
    rule_of,
    with_rules,
)
from grants.guardrails.storage import (
    exception_end_entry,
    exception_entry,
    fill_exception,
    guardrail_entry,
    present_conflicts,
    reasons_for_no_match,
    rule_faults,
    store_rule,
    stored_rules,
)
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Enforcement, Guardrail, GuardrailException, JournalHead, User, type_of
from grants.outcomes import Outcome
from grants.policies.times import TimeError, format_time, parse_time
from grants.principal_names import MAX_REASON_CHARACTERS, parse_principal, principals_by_name

PROPOSE_ACTION = "guardrail-propose"
# how many violations of a new guardrail a refusal names
MAX_NAMED = 3


def write_guardrail_change(
    head: JournalHead, author: Author, change: GuardrailChange, *, accepted_violations: int | None
) -> Outcome:
    """Write a guardrail or an exception.

    accepted_violations: how many violations the author has seen and accepts; None for any number. Raise
    GuardrailError if the change is invalid, GuardrailViolated if a new guardrail that blocks has more violations.
    """
    match change:
        case SetGuardrail():
            return _write_guardrail(head, author, change, accepted_violations)
        case DeleteGuardrail():
            return _delete_guardrail(head, author, change)
        case SetException():
            return _write_exception(head, author, change)
    return _end_exception(head, author, change)


def _write_guardrail(
    head: JournalHead, author: Author, change: SetGuardrail, accepted_violations: int | None
) -> Outcome:
    name, rule = check_guardrail_name(change.guardrail), rule_from_text(change.rule)
    stored = stored_rules()
    before = stored.get(name)
    if before == rule:
        return Outcome(False, f"guardrail {name} says this already: nothing changed", head.revision)
    if fault := rule_faults({name: rule}, stored).get(name):
        raise fault
    entry = guardrail_entry(name, rule)
    if proposed := propose_first(
        head, author, entry, PROPOSE_ACTION, f"guardrail {name}", detail=entry.detail
    ):
        return proposed
    principals = principals_by_name([rule.principal] if rule.principal else [])
    guardrail = store_rule(name, rule, author=author.name, principals=principals)
    violations = open_violations(guardrail)
    first = list(islice(violations, MAX_NAMED))
    count = len(first) + sum(1 for _ in violations)
    if rule.level == Enforcement.BLOCK and accepted_violations is not None and count > accepted_violations:
        named = "; ".join(row.sentence() for row in first[:MAX_NAMED])
        raise GuardrailViolated(
            f"guardrail {name} is violated already by {quantity(count, 'grant', 'grants')}: {named}"
            f"{' and others' if count > MAX_NAMED else ''}. It refuses new violations only: confirm "
            "this number, or write it with the level `warn`",
            count,
        )
    revision = append_to_journal(head, [entry], author=author)
    found = [quantity(count, "violation exists", "violations exist")] if count else []
    verb = "changed" if before else "added"
    notes = [*found, *reasons_for_no_match({name: rule}).values(), *present_conflicts(name, rule, stored)]
    return Outcome(
        True,
        "; ".join([f"guardrail {name} was {verb}", *notes]),
        revision,
        (change,),
        previous=SetGuardrail(name, before.text) if before else None,
    )


def _delete_guardrail(head: JournalHead, author: Author, change: DeleteGuardrail) -> Outcome:
    guardrail = _guardrail(change.guardrail)
    entry = JournalEntry("guardrail-delete", guardrail.principal, detail=guardrail.name)
    if proposed := propose_first(
        head, author, entry, PROPOSE_ACTION, f"the deletion of guardrail {guardrail}", detail=entry.detail
    ):
        return proposed
    rows = list(guardrail.exceptions.select_related("user", "group", "guardrail"))
    previous = SetGuardrail(guardrail.name, rule_of(guardrail).text)
    revision = append_to_journal(head, [*map(exception_end_entry, rows), entry], author=author)
    guardrail.delete()
    return Outcome(True, f"guardrail {guardrail} was deleted", revision, (change,), previous=previous)


def _write_exception(head: JournalHead, author: Author, change: SetException) -> Outcome:
    guardrail = _guardrail(change.guardrail)
    if not author.reason.strip():
        raise GuardrailError("an exception needs a reason", field="reason")
    if fault := storage_fault(author.reason, MAX_REASON_CHARACTERS):
        raise GuardrailError(fault, field="reason")
    try:
        valid_until = parse_time(change.valid_until).replace(microsecond=0)
    except TimeError as error:
        raise GuardrailError(str(error), field="valid_until") from None
    if valid_until <= timezone.now():
        raise GuardrailError(f"the end {format_time(valid_until)} is in the past", field="valid_until")
    if not User.objects.filter(username=change.owner, is_active=True).exists():
        raise GuardrailError(
            f"user:{clip(change.owner)} is not an active account: name the person who answers for the exception",
            field="owner",
        )
    principal = principals_by_name([change.subject] if change.subject else []).get(change.subject)
    if change.subject and principal is None:
        raise GuardrailError(f"{clip(change.subject)} does not exist: correct the name", field="subject")
    if change.place and entity_at(parse_address(change.place)) is None:
        raise GuardrailError(f"{clip(change.place)} is not registered: correct the address", field="place")
    existing = _exception(guardrail, change)
    previous = existing and _change_of(existing)
    row = existing or GuardrailException(guardrail=guardrail)
    fill_exception(
        row,
        principal=principal,
        place=change.place,
        owner=change.owner,
        reason=author.reason,
        valid_until=valid_until,
        author=author.name,
    )
    entry = exception_entry(row)
    if proposed := propose_first(head, author, entry, PROPOSE_ACTION, str(change), detail=entry.detail):
        return proposed
    row.save()
    revision = append_to_journal(head, [entry], author=author)
    sentence = f"{change} was made, {exception_text(row)}"
    return Outcome(True, sentence, revision, (change,), previous=previous)


def _end_exception(head: JournalHead, author: Author, change: EndException) -> Outcome:
    row = _exception(_guardrail(change.guardrail), change)
    if row is None:
        return Outcome(False, f"{change} does not exist: nothing changed", head.revision)
    previous = _change_of(row)
    revision = append_to_journal(head, [exception_end_entry(row)], author=author)
    row.delete()
    return Outcome(True, f"{change} was ended", revision, (change,), previous=previous)


def _change_of(row: GuardrailException) -> SetException:
    """Return the change that writes a stored exception."""
    return SetException(row.guardrail.name, row.principal, row.place, row.owner, format_time(row.valid_until))


def end_exceptions(principal: User | Group) -> list[JournalEntry]:
    """Delete the exceptions of a principal in the transaction of its removal. Return the changes for the journal."""
    rows = GuardrailException.objects.filter(**{type_of(principal).name: principal})
    entries = [exception_end_entry(row) for row in rows.select_related("guardrail", "user", "group")]
    rows.delete()
    return entries


def naming_guardrail(principal: User | Group) -> str:
    """Return the name of a guardrail that names the principal; empty if there is none."""
    rows = Guardrail.objects.filter(**{type_of(principal).name: principal})
    return rows.values_list("name", flat=True).first() or ""


def _guardrail(name: str) -> Guardrail:
    """Return the guardrail. Raise GuardrailError if there is none."""
    guardrail = with_rules(Guardrail.objects.filter(name=name)).first()
    if guardrail is None:
        raise GuardrailError(f"there is no guardrail `{clip(name)}`", field="guardrail")
    return guardrail


def _exception(guardrail: Guardrail, change: SetException | EndException) -> GuardrailException | None:
    kind, _, key = change.place.partition(":")
    rows = guardrail.exceptions.select_related("guardrail", "user", "group").filter(kind=kind, key=key)
    if not change.subject:
        return rows.filter(user=None, group=None).first()
    principal_type, name = parse_principal(change.subject)
    column = "user__username" if principal_type == "user" else "group__name"
    return rows.filter(**{column: name}).first()
