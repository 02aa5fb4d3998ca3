"""Choose the grants of one user in one stage."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from entities.address import Address, instance_address
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.effects.holders import NUMBERS
from grants.plans.minimal_grants import Denial, NewGrants
from grants.plans.regrants.stages import Stage
from grants.policies.decide import EntitiesWithoutPrivilege, HeldGrant
from grants.policies.explain import GrantSet, MissingGrant, grant_order, minimal_grant_sets
from grants.policies.grammar import FactsRead
from grants.policies.question import Question

# steps of the search for the grants to leave out if some of them together would have a side effect
MAX_SEARCH_STEPS = 400


@dataclass
class StageFacts:
    """The facts about one user in a stage; see `grants.policies.decide.Facts`. mask: the bit of the user."""

    stage: Stage
    mask: int
    is_subject_known: bool = True
    _missing: dict[tuple[Address, Privilege, str | None], EntitiesWithoutPrivilege] = field(
        default_factory=dict
    )

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        node = self.stage.by_address.get(address)
        pk = node.pk if node else self.stage.instance if address == instance_address() else None
        held = self.stage.holders(pk)
        return {privilege: "" for privilege, number in NUMBERS.items() if held[number] & self.mask}

    def has_grant_at_or_below(self, address: Address) -> bool:
        if address.kind not in CONTAINER_KINDS:
            return bool(self.privileges_on(address))
        node = self.stage.by_address.get(address)
        return node is not None and bool(self.stage.inside.get(node.pk, 0) & self.mask)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        """Return None, because a stage does not contain single grants."""
        return None

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        key = address, privilege, kind
        if key not in self._missing:
            inside = list(self.stage.live_inside(self.stage.by_address[address], kind))
            number = NUMBERS[privilege]
            missing = tuple(
                node.address for node in inside if not self.stage.holders(node.pk)[number] & self.mask
            )
            self._missing[key] = EntitiesWithoutPrivilege(not missing, len(inside), missing)
        return self._missing[key]


class _FactsWithGrantInside(StageFacts):
    """The facts of a user who also has a grant inside every container."""

    def has_grant_at_or_below(self, address: Address) -> bool:
        return True


def denials_of(
    questions: Iterable[Question], facts: StageFacts, allowed: set[MissingGrant] | None
) -> Iterator[Denial]:
    """Yield the questions with the sets of grants that would permit them, one for each address and
    requirement. allowed: the only grants to use; None for all.
    """
    by_requirement = {(question.target, question.policy.requirement): question for question in questions}
    for (_, requirement), question in by_requirement.items():
        alternatives = minimal_grant_sets(requirement, question, facts)
        if allowed is not None:
            permitted = [grants for grants in alternatives if grants <= allowed]
            alternatives = permitted or _alternatives_inside(question, facts, allowed)
        if alternatives and alternatives != [frozenset()]:
            yield Denial(question, facts, alternatives)


def _alternatives_inside(question: Question, facts: StageFacts, allowed: set[MissingGrant]) -> list[GrantSet]:
    """Return sets that contain a grant inside the target, where any grant there counts."""
    target = question.known_target
    counts_inside = FactsRead(question.policy.requirement).is_at_or_below
    if target.kind not in CONTAINER_KINDS or not counts_inside:
        return []
    inside = min((grant for grant in allowed if target in grant[0].ancestors), key=grant_order, default=None)
    if inside is None:
        return []
    sets = minimal_grant_sets(
        question.policy.requirement, question, _FactsWithGrantInside(facts.stage, facts.mask)
    )
    return [frozenset((*grants, inside)) for grants in sets if grants <= allowed]


def grants_without_side_effects(
    allowed: set[MissingGrant],
    wanted: list[Question],
    side_effects: list[Question],
    facts: StageFacts,
    fixed: Iterable[MissingGrant] = (),
) -> set[MissingGrant]:
    """Return a subset of `allowed` that permits none of the side effects, and as many of the wanted questions
    as possible.

    Every single grant is free of side effects, so only grants together can have one. At least one of those
    that meet a side effect must be left out; the search tries each of them, up to MAX_SEARCH_STEPS. fixed:
    grants that the user gets in any case.
    """
    return _Search(allowed, wanted, side_effects, facts, fixed).best_grants()


class _Search:
    def __init__(
        self,
        allowed: set[MissingGrant],
        wanted: list[Question],
        side_effects: list[Question],
        facts: StageFacts,
        fixed: Iterable[MissingGrant],
    ):
        self._wanted = [Denial(question, facts, []) for question in wanted]
        self._side_effects = [Denial(question, facts, []) for question in side_effects]
        self._current, self._removed = NewGrants(), set[MissingGrant]()
        self._allowed = sorted(allowed, key=grant_order)
        for grant in {*allowed, *fixed}:
            self._current.add(grant)
        self._steps, self._best, self._best_count = 0, set(allowed), -1

    def best_grants(self) -> set[MissingGrant]:
        self._search(self._permitted_count())
        return self._best

    def _search(self, kept: int) -> None:
        """Try to leave out one more grant. kept: the number of wanted questions that are permitted now."""
        if kept <= self._best_count:
            return
        side_effect = next((denial for denial in self._side_effects if self._current.permits(denial)), None)
        if side_effect is None:
            self._best, self._best_count = (
                {grant for grant in self._allowed if grant not in self._removed},
                kept,
            )
            return
        options = []
        for grant in self._allowed:
            if grant not in self._removed and _can_meet(grant, side_effect.question):
                self._remove(grant)
                options.append((-self._permitted_count(), grant_order(grant), grant))
                self._add(grant)
        for negative_kept, _, grant in sorted(options):
            if self._steps > MAX_SEARCH_STEPS and self._best_count >= 0:
                return
            self._steps += 1
            self._remove(grant)
            self._search(-negative_kept)
            self._add(grant)

    def _permitted_count(self) -> int:
        return sum(self._current.permits(denial) for denial in self._wanted)

    def _remove(self, grant: MissingGrant) -> None:
        self._current.remove(grant)
        self._removed.add(grant)

    def _add(self, grant: MissingGrant) -> None:
        self._current.add(grant)
        self._removed.discard(grant)


def _can_meet(grant: MissingGrant, question: Question) -> bool:
    """Return whether a grant can help to permit a question."""
    address, privilege = grant
    read = FactsRead(question.policy.requirement)
    return (
        any(privilege in leaf.privileges and question.address_at(leaf.scope) == address for leaf in read.held)
        or read.is_at_or_below
        and question.target in (address, *address.ancestors)
        or any(
            privilege == leaf.privilege
            and question.target in address.ancestors
            and leaf.kind in (None, address.kind)
            for leaf in read.all_live
        )
    )


def grants_on(stage: Stage, pk: int, numbers: Iterable[int]) -> Iterator[MissingGrant]:
    """Yield the grants of these privileges on an entity of the stage, or on the instance."""
    address = stage.nodes[pk].address if pk in stage.nodes else instance_address()
    for number in numbers:
        yield address, ANY[number]
