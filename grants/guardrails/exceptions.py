"""Find the exception that accepts a violation."""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cache

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import get_random_string

from entities.address import parse_address
from grants.guardrails.evaluation import Part, Violation, violations_of_form
from grants.guardrails.rules import Rule
from grants.guardrails.storage import rule_faults, store_rule
from grants.models import Form, Guardrail, GuardrailException
from grants.principal_names import principals_by_name
from grants.querysets import memberships_in_force


class Exceptions:
    """The exceptions that have not ended. Runs one query, and one for each group of an exception that is compared."""

    def __init__(self) -> None:
        rows = GuardrailException.objects.filter(valid_until__gt=timezone.now()).select_related(
            "guardrail", "user", "group"
        )
        self._rows: dict[str, list[GuardrailException]] = {}
        for row in rows:
            self._rows.setdefault(row.guardrail.name, []).append(row)
        self._members = cache(_names_of_members)

    def accepting(self, violation: Violation) -> GuardrailException | None:
        """Return the exception that lasts longest among those that accept the violation; None if there is none."""
        rows = (row for row in self._rows.get(violation.guardrail, ()) if self._accepts(row, violation))
        return max(rows, key=_end, default=None)

    def _accepts(self, row: GuardrailException, violation: Violation) -> bool:
        if row.place and row.place not in _places_of(violation.entity):
            return False
        if row.user:
            return violation.principal == row.principal
        if row.group is None:
            return True
        return violation.principal == row.principal or violation.principal in self._members(row.group.pk)


def open_violations(guardrail: Guardrail, *, with_dormant: bool = False) -> Iterator[Violation]:
    """Yield the violations of one guardrail that no exception accepts. with_dormant: see `Part`."""
    exceptions = Exceptions()
    part = Part(guardrails=[guardrail.pk], with_dormant=with_dormant)
    rows = violations_of_form(Form(guardrail.form), part)
    return (row for row in rows if exceptions.accepting(row) is None)


def draft_violations(rule: Rule) -> Iterator[Violation]:
    """Yield the violations of a rule that is not stored. Raise GuardrailError if it names what does not exist.

    The rule is stored in a transaction that is rolled back at the end.
    """
    name = f"~{get_random_string(20)}"
    if fault := rule_faults({name: rule}, {}).get(name):
        raise fault
    principals = principals_by_name([rule.principal] if rule.principal else [])
    with transaction.atomic():
        guardrail = store_rule(name, rule, author="", principals=principals)
        yield from open_violations(guardrail)
        transaction.set_rollback(True)


def _end(row: GuardrailException) -> datetime:
    return row.valid_until


def _places_of(entity: str) -> set[str]:
    address = parse_address(entity)
    return {entity, *map(str, address.ancestors)}


def _names_of_members(group: int) -> Collection[str]:
    members = memberships_in_force().filter(group_id=group)
    return {f"user:{name}" for name in members.values_list("user__username", flat=True)}
