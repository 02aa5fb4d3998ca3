"""Check grants to users against the guardrails that forbid privileges, without listing old violations.

Grants change only what their users hold on the granted entities. So these hits are compared before and after the
grants. Of two privileges together, the other one can be held anywhere, and the user may hold thousands of them: only
whether it is held is read, and only for guardrails with a new hit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from entities.address import Address
from entities.selectors import entities_at
from grants.guardrails.evaluation import (
    Hit,
    Part,
    Violation,
    forbidden_statement,
    held_sides,
    lasting_hits,
    violations_in,
)
from grants.models import Form, GuardrailClause


@dataclass(frozen=True, slots=True)
class GrantsToUsers:
    """Grants that are made. part: the guardrails and users. addresses: of the entities, with their containers."""

    part: Part
    addresses: frozenset[Address]

    def hits(self) -> dict[tuple, Hit]:
        """Return the hits on the entities, by their key. Runs two queries."""
        return lasting_hits(replace(self.part, entities=self._entities()))

    def new_violations(self, before: dict[tuple, Hit]) -> Iterator[Violation]:
        """Yield the violations that the grants added. before: the hits before them. Runs at most 13 queries."""
        after = self.hits()
        new = [hit for key, hit in after.items() if key not in before]
        yield from sorted(hit.violation for hit in new if hit.form == Form.FORBID)
        new = [hit for hit in new if hit.form == Form.FORBID_BOTH]
        if not new:
            return
        clauses = list(
            GuardrailClause.objects.filter(guardrail__pk__in={hit.guardrail for hit in new}).values_list(
                "guardrail_id", "side", "pk"
            )
        )

        def held_elsewhere(hits: list[Hit], sides: set[tuple[int, int]]) -> set[tuple[int, int, int]]:
            part = Part(
                guardrails=frozenset(guardrail for guardrail, _ in sides),
                users=frozenset(hit.user for hit in hits),
                clauses=[pk for guardrail, side, pk in clauses if (guardrail, side) in sides],
                outside=self._entities(),
            )
            return held_sides(part)

        others = {(hit.guardrail, 1 - hit.side) for hit in new}
        elsewhere = held_elsewhere(new, others)
        is_held = elsewhere | {hit[:3] for hit in after.values()}
        new = [hit for hit in new if (hit.guardrail, 1 - hit.side, hit.user) in is_held]
        if not new:
            return
        elsewhere |= held_elsewhere(new, {(hit.guardrail, hit.side) for hit in new} - others)
        was_held = elsewhere | {hit[:3] for hit in before.values()}
        first = [hit for hit in new if not {(hit.guardrail, side, hit.user) for side in (0, 1)} <= was_held]
        pairs = {hit.violation[:2] for hit in first}
        yield from sorted(hit.violation for hit in new if hit.violation[:2] not in pairs)
        part = Part(frozenset(hit.guardrail for hit in first), frozenset(hit.user for hit in first))
        if statement := forbidden_statement(Form.FORBID_BOTH, part, is_lasting=True):
            yield from (row for row in violations_in(statement) if row[:2] in pairs)

    def _entities(self) -> frozenset[int]:
        return frozenset(entity.pk for entity in entities_at(self.addresses).values())
