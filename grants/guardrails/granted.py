"""Check grants against the guardrails that forbid privileges, without listing old violations.

Grants change only what their users, or the members of their groups, hold on the granted entities. So these hits are
compared before and after the grants. A new grant of one principal needs no comparison: a hit is new if nothing else
gives it. Of two privileges together, the other one can be held anywhere, and the user may hold thousands of them: only
whether it is held is read, and only for guardrails with a new hit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import Privilege
from grants.guardrails.evaluation import (
    Hit,
    Part,
    Violation,
    forbidden_statement,
    held_sides,
    lasting_hits,
    violations_in,
)
from grants.models import PRINCIPAL_TYPES, Form, permission_ids
from grants.policies.principals import type_and_name

Hits = dict[tuple, Hit]


@dataclass(frozen=True, slots=True)
class NewGrants:
    """Grants that are made. part: their users and groups. one, both: the guardrails that forbid one
    privilege, and two together. principals: as text.
    """

    part: Part
    one: frozenset[int]
    both: frozenset[int]
    principals: frozenset[str]
    grants: frozenset[tuple[Address, Privilege]]

    def hits_before(self) -> Hits | None:
        """Return the hits before the grants are made, by their key; None if `new_violations` does not need them. Runs at
        most three queries.
        """
        (principal, *others) = self.principals
        type_name, name = type_and_name(principal)
        holder = PRINCIPAL_TYPES[type_name]
        existing = holder.held_grants.filter(
            **{holder.name_path: name},
            content_object__kind__in={address.kind for address, _ in self.grants},
            content_object__key__in={address.key for address, _ in self.grants},
            permission_id__in={permission_ids()[privilege] for _, privilege in self.grants},
        )
        return lasting_hits(self._part()) if others or existing.exists() else None

    def new_violations(self, before: Hits | None) -> Iterator[Violation]:
        """Yield the violations that the grants added. before: `hits_before`. Runs at most nine queries."""
        part = self._part()
        if before is None and not part.groups:
            # few users: without the other privilege, the hits are not needed
            sides = held_sides(self.both, part.users or ())
            part = replace(
                part,
                guardrails=self.one
                | {guardrail for guardrail, side, user in sides if (guardrail, 1 - side, user) in sides},
            )
        after = lasting_hits(part)
        if before is None:
            before = {key: hit for key, hit in after.items() if not self._gives(hit)}
        new = [hit for key, hit in after.items() if key not in before]
        yield from sorted(hit.violation for hit in new if hit.form == Form.FORBID)
        new = [hit for hit in new if hit.form == Form.FORBID_BOTH]
        if not new:
            return
        elsewhere = held_sides(
            {hit.guardrail for hit in new}, {hit.user for hit in new}, outside=part.entities or ()
        )
        is_held = elsewhere | {hit[:3] for hit in after.values()}
        was_held = elsewhere | {hit[:3] for hit in before.values()}
        new = [hit for hit in new if (hit.guardrail, 1 - hit.side, hit.user) in is_held]
        first = [hit for hit in new if not {(hit.guardrail, side, hit.user) for side in (0, 1)} <= was_held]
        pairs = {hit.violation[:2] for hit in first}
        yield from sorted(hit.violation for hit in new if hit.violation[:2] not in pairs)
        of_pairs = Part({hit.guardrail for hit in first}, {hit.user for hit in first})
        if statement := forbidden_statement(Form.FORBID_BOTH, of_pairs, is_lasting=True):
            yield from (row for row in violations_in(statement) if row[:2] in pairs)

    def _gives(self, hit: Hit) -> bool:
        """Return whether only the grants give the hit."""
        is_granted = (parse_address(hit.violation.entity), hit.violation.privilege) in self.grants
        return is_granted and {hit.violation.through, hit.last_way} == self.principals

    def _part(self) -> Part:
        """Return the part with the live and planned entities of the grants."""
        addresses = (address for address, _ in self.grants)
        rows = entities_at(addresses, Entity.rows.filter(state__in=(State.LIVE, State.PLANNED)))
        entities = frozenset(entity.pk for entity in rows.values())
        return replace(self.part, guardrails=self.one | self.both, entities=entities)
