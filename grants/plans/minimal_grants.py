"""Compute the fewest grants that permit a list of denied questions of one user.

1. If only one set of grants can give a permission, this set is forced.
2. The forced grants usually give most of the other permissions too.
3. The remaining permissions are covered greedily: repeatedly take the set that gives most of them.
4. Every grant that the other grants make superfluous is removed again.

INVARIANT: `decide.is_met` decides whether the new grants, added to the facts, give a permission.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.errors import PlanError
from grants.policies.decide import EntitiesWithoutPrivilege, Facts, HeldGrant, is_met
from grants.policies.explain import GrantSet, MissingGrant, grant_order
from grants.policies.grammar import FactsRead
from grants.policies.question import Question

QUESTIONS_PER_BATCH = 500


@frozen
class MinimalGrants:
    """The result of `fewest_grants`.

    grants: by address. only_way: the number of forced grants, which every solution contains.
    is_smallest: whether it is proven that fewer grants are not enough.
    """

    grants: tuple[MissingGrant, ...] = ()
    only_way: int = 0
    is_smallest: bool = True


@frozen
class Denial:
    """A denied question that must become permitted, with its facts and every minimal set of grants that would
    permit it.

    The facts list every missing grant, so no set contains `UnlistedGrants`.
    """

    question: Question
    facts: Facts
    alternatives: list[GrantSet]

    @property
    def permitting_container(self) -> Address | None:
        """The container in which any grant permits the question; None if there is no such container."""
        needs_any_grant = FactsRead(self.question.policy.requirement).is_at_or_below
        return (
            self.question.target if needs_any_grant and self.question.target.kind in CONTAINER_KINDS else None
        )


@dataclass(slots=True)
class NewGrants:
    """The grants of the solution so far. count_inside: the number of these grants on or inside each address."""

    privileges: dict[Address, set[Privilege]] = field(default_factory=lambda: defaultdict(set))
    count_inside: Counter = field(default_factory=Counter)

    def holds(self, grant: MissingGrant) -> bool:
        return grant[1] in self.privileges.get(grant[0], ())

    def add(self, grant: MissingGrant) -> None:
        """Add a grant that is not in the solution yet."""
        self.privileges[grant[0]].add(grant[1])
        self.count_inside.update((grant[0], *grant[0].ancestors))

    def remove(self, grant: MissingGrant) -> None:
        self.privileges[grant[0]].discard(grant[1])
        self.count_inside.subtract((grant[0], *grant[0].ancestors))

    def permits(self, denial: Denial) -> bool:
        return is_met(denial.question.policy.requirement, denial.question, _FactsWithNewGrants(denial, self))


@frozen
class _FactsWithNewGrants:
    """The facts of a denial with the new grants added; see `grants.policies.decide.Facts`."""

    denial: Denial
    new_grants: NewGrants
    is_subject_known: bool = True

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        new = dict.fromkeys(self.new_grants.privileges.get(address, ()), self.denial.question.principal)
        return {**self.denial.facts.privileges_on(address), **new}

    def has_grant_at_or_below(self, address: Address) -> bool:
        return self.new_grants.count_inside[address] > 0 or self.denial.facts.has_grant_at_or_below(address)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        if self.new_grants.count_inside[address] > 0:
            return HeldGrant(self.denial.question.principal, address, ANY[0])
        return self.denial.facts.grant_at_or_below(address)

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        missing = self.denial.facts.entities_without_privilege(address, privilege, kind)
        remaining = tuple(
            a for a in missing.addresses if privilege not in self.new_grants.privileges.get(a, ())
        )
        return EntitiesWithoutPrivilege(not remaining, missing.checked_count, remaining)


def fewest_grants(
    denials: Iterable[Denial], new_grants: NewGrants, *, max_grants: int, grant_count: int
) -> MinimalGrants:
    """Return the fewest grants that permit all denials, and add them to `new_grants`.

    grant_count: the number of grants that the plan has already. Raise PlanError if it would have more than
    `max_grants`.
    """
    forced: set[MissingGrant] = set()
    with_choice = []
    for denial in denials:
        if len(denial.alternatives) == 1 and denial.permitting_container is None:
            forced |= denial.alternatives[0]
        else:
            with_choice.append(denial)
        _check_limit(grant_count + len(forced), max_grants)
    new_forced = [grant for grant in forced if not new_grants.holds(grant)]
    for grant in new_forced:
        new_grants.add(grant)
    open_denials = [denial for denial in with_choice if not new_grants.permits(denial)]
    selected, is_proven = _select_grants(open_denials, new_grants)
    _check_limit(grant_count + len(new_forced) + len(selected), max_grants)
    return MinimalGrants((*new_forced, *selected), len(new_forced), is_proven)


def _check_limit(count: int, max_grants: int) -> None:
    if count > max_grants:
        raise PlanError(
            f"more than {max_grants:,} grants would be needed, which is the limit of a plan: create it for one "
            f"namespace, one group or one user at a time"
        )


def _select_grants(denials: list[Denial], new_grants: NewGrants) -> tuple[list[MissingGrant], bool]:
    """Add grants to `new_grants` that permit all denials.

    Return these grants, and whether it is proven that fewer grants are not enough.
    """
    if not denials:
        return [], True
    permitted, lower_bound = _permitted_by_set(denials), _lower_bound(denials, new_grants)
    selected = _select_greedily(denials, permitted, new_grants)
    kept = _remove_superfluous(selected, denials, permitted, new_grants)
    return kept, lower_bound == len(kept)


def _permitted_by_set(denials: list[Denial]) -> dict[GrantSet, set[int]]:
    """Return, for each set of grants, the indexes of the denials that it permits without further grants."""
    permitted: dict[GrantSet, set[int]] = defaultdict(set)
    by_container = defaultdict(set)
    for index, denial in enumerate(denials):
        for grant_set in denial.alternatives:
            permitted[grant_set].add(index)
        if denial.permitting_container is not None:
            by_container[denial.permitting_container].add(index)
    for grant_set, indexes in permitted.items():
        for address, _ in grant_set:
            for container in (address, *address.ancestors):
                indexes |= by_container.get(container, set())
    return permitted


def _select_greedily(
    denials: list[Denial], permitted: dict[GrantSet, set[int]], new_grants: NewGrants
) -> list[MissingGrant]:
    """Select sets of grants until all denials are permitted, and return their grants.

    Repeatedly take the set that permits most open denials per grant; of equally good sets, the set with the
    narrowest reach.
    """
    open_indexes, selected = set(range(len(denials))), []
    ordered_sets = sorted(permitted.items(), key=lambda item: sorted(map(grant_order, item[0])))
    heap = [
        (-len(indexes) / len(grant_set), _reach(grant_set), number, grant_set)
        for number, (grant_set, indexes) in enumerate(ordered_sets)
    ]
    heapq.heapify(heap)
    while open_indexes:
        score, reach, number, grant_set = heapq.heappop(heap)
        current_score = -len(permitted[grant_set] & open_indexes) / len(grant_set)
        if current_score != score:
            # sets selected since then permit some of its denials: put the set back with its current score
            if current_score:
                heapq.heappush(heap, (current_score, reach, number, grant_set))
            continue
        for grant in grant_set:
            if not new_grants.holds(grant):
                new_grants.add(grant)
                selected.append(grant)
        open_indexes -= {
            index for index in permitted[grant_set] & open_indexes if new_grants.permits(denials[index])
        }
    return selected


def _remove_superfluous(
    selected: list[MissingGrant],
    denials: list[Denial],
    permitted: dict[GrantSet, set[int]],
    new_grants: NewGrants,
) -> list[MissingGrant]:
    """Remove each grant that the others make superfluous, widest reach first. Return the remaining grants."""
    indexes_by_grant: dict[MissingGrant, set[int]] = defaultdict(set)
    for grant_set, indexes in permitted.items():
        for grant in grant_set:
            indexes_by_grant[grant] |= indexes
    kept = []
    for grant in sorted(selected, key=lambda grant: (-_reach((grant,)), grant_order(grant))):
        new_grants.remove(grant)
        if not all(new_grants.permits(denials[index]) for index in indexes_by_grant[grant]):
            new_grants.add(grant)
            kept.append(grant)
    return kept


def _lower_bound(denials: list[Denial], new_grants: NewGrants) -> int:
    """Return a number of further grants that every solution needs.

    Adds up the grants for denials that cannot share a grant with each other.
    """
    total, counted_grants, counted_addresses, counted_containers = 0, set(), set(), set()
    for denial in sorted(
        denials, key=lambda denial: (denial.permitting_container is not None, len(denial.alternatives))
    ):
        missing_sets = [
            {grant for grant in grant_set if not new_grants.holds(grant)} for grant_set in denial.alternatives
        ]
        grants = set().union(*missing_sets)
        addresses = {container for address, _ in grants for container in (address, *address.ancestors)}
        if (
            grants & counted_grants
            or addresses & counted_containers
            or denial.permitting_container in counted_addresses
        ):
            continue
        total += min(map(len, missing_sets))
        counted_grants |= grants
        counted_addresses |= addresses
        if denial.permitting_container is not None:
            counted_containers.add(denial.permitting_container)
    return total


def _reach(grants: Iterable[MissingGrant]) -> int:
    """Return a number that grows with the size of the containers: a grant on a container affects everything
    inside it.
    """
    kinds = [address.kind for address, _ in grants if address.kind in CONTAINER_KINDS]
    return sum(len(CONTAINER_KINDS) - CONTAINER_KINDS.index(kind) for kind in kinds)
