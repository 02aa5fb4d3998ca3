"""Compute regrants, and create their plans: the grants after which users may do in generation H what they may do in generation G.

A permission is one operation on one live entity for one active user. Only operations with a rule in both
generations count. A grant has a side effect if it permits something in H that is permitted neither in G, nor
in H without the plan. `narrowest` uses only grants without side effects:

1. Find the grants that could help: those that the requirements of lost permissions name.
2. Remove those that have a side effect alone, and for each user those that have one together. As no
   requirement has a negation, all subsets of the remaining grants are free of side effects.
3. Choose the fewest of the remaining grants that keep everything that all of them together would keep.

`fewest` chooses among all grants. Every decision is evaluated again with the chosen grants to count the
result.

A grant ends with the access that it keeps. So the grants that are still needed are chosen among the first ones again, at
the times just before the users' grants and memberships end.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import reduce
from operator import or_

from django.contrib.auth.models import Group

from entities.address import Address, instance_address
from entities.frozen import frozen
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege, quantity
from grants.authority.transactions import check_administrator
from grants.change_set import ActivateGeneration, Grant
from grants.effects.holders import NUMBERS
from grants.effects.kind_rules import dependent_kinds, rule_pairs_by_kind, rules_by_kind
from grants.effects.masks import bits_of, users_meeting
from grants.effects.situations import AffectedUsers, affected_users
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import GRANT_SOURCES, USER, Plan, PlanBreadth, User
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, store_plan
from grants.plans.minimal_grants import Denial, NewGrants, fewest_grants
from grants.plans.regrants.stages import (
    Decision,
    ExtraGrants,
    GrantKey,
    Stage,
    StageFacts,
    StageSource,
    decisions,
    masks_by_namespace,
    stages,
)
from grants.policies.explain import GrantSet, MissingGrant, grant_order, minimal_grant_sets
from grants.policies.grammar import FactsRead, Scope
from grants.policies.policy import Generation
from grants.policies.principals import group_text
from grants.policies.question import Question
from grants.validity import Validity, at_time

# a recipe lists at most this many namespaces
MAX_NAMESPACES = 100
EFFECT_COUNTS = ("kept", "beyond_gained", "beyond_lost", "kept_not")
ACTIVATION_COUNTS = ("given", "taken", "given_with_plan", "taken_with_plan")
# steps of the search for the grants to leave out if some of them together would have a side effect
MAX_SEARCH_STEPS = 400
# with more ends of access, a grant ends at one that is too early rather than too late
MAX_ENDS = 8
_ALWAYS = datetime(9999, 12, 31, tzinfo=UTC)


class Prefer(StrEnum):
    """Which grants a plan prefers."""

    NARROWEST = "narrowest"
    FEWEST = "fewest"


@frozen
class RegrantScope:
    """The permissions to keep. users: names; None for all. namespace: a name; empty for all."""

    users: frozenset[str] | None = None
    namespace: str = ""


# user, address and privilege
UserPrivilege = tuple[str, Address, Privilege]


@dataclass(slots=True)
class Regrants:
    """The grants of a plan and their effect, in permissions.

    grants: (user, address, privilege). ends: when a grant ends, if it keeps only access that ends. only_way: the number of grants without an alternative.
    is_smallest: whether it is proven that fewer grants are not enough.
    lost: permissions of the generation before that are not permitted afterwards without the plan.
    kept_not_in: `kept_not` by the name of the namespace; empty for what is outside of namespaces.
    counts: `kept` and `kept_not`, permissions of the generation before that are, or are not, permitted
    afterwards with the plan; `beyond_gained` and `beyond_lost`, what the plan gives and takes besides.
    activation: `given` and `taken`, permissions that activating the generation after gives to and takes from
    all users without the plan; `given_with_plan` and `taken_with_plan`, the same after the plan was applied.
    """

    grants: list[UserPrivilege] = field(default_factory=list)
    ends: dict[UserPrivilege, datetime] = field(default_factory=dict)
    only_way: int = 0
    is_smallest: bool = True
    lost: int = 0
    kept_not_in: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EFFECT_COUNTS, 0))
    activation: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACTIVATION_COUNTS, 0))

    @property
    def changes(self) -> list[Grant]:
        return [Grant(f"user:{row[0]}", *row[1:], Validity(None, self.ends.get(row))) for row in self.grants]

    @property
    def note_on_ends(self) -> str:
        """A sentence about the grants that end; empty if none does."""
        total = len(self.ends)
        return (
            f"{quantity(total, 'grant ends', 'grants end')} with the access that {'it keeps' if total == 1 else 'they keep'}."
            if total
            else ""
        )

    @property
    def kept_not_recipe(self) -> dict:
        """The member of a recipe that names the namespaces with permissions that are not kept; none if these
        are too many.
        """
        return {"kept_not_in": sorted(self.kept_not_in)} if len(self.kept_not_in) <= MAX_NAMESPACES else {}


def regrant_scope(user: str = "", group: str = "", namespace: str = "") -> RegrantScope:
    """Return the scope of one user, of the members of one group, and of one namespace. Empty names do not
    limit it.

    Raise PlanError if the user or the group does not exist.
    """
    if user and not User.objects.filter(username=user).exists():
        raise PlanError(f"user:{user} does not exist: add it first, or correct the name")
    if not group:
        return RegrantScope(frozenset({user}) if user else None, namespace)
    row = Group.objects.filter(name=group).first()
    if row is None:
        raise PlanError(f"{group_text(group)} does not exist: add it first, or correct the name")
    members = frozenset(row.user_set.values_list("username", flat=True))
    return RegrantScope(members & {user} if user else members, namespace)


def users_in_scope(users: AffectedUsers, scope: RegrantScope) -> int:
    """Return the mask of the users whose permissions are kept."""
    if scope.users is None:
        return users.before.known
    return users.before.known & sum(1 << bit for bit, name in enumerate(users.names) if name in scope.users)


def compute_regrants(
    before: Generation,
    after: Generation,
    *,
    prefer: Prefer = Prefer.NARROWEST,
    scope: RegrantScope | None = None,
    max_grants: int,
) -> Regrants:
    """Return the grants that keep, in `after`, the permissions of `before`, with their effect on all active
    users.

    Reads the tenant two or three times, with three queries for each namespace; memory is that of the largest
    namespace. If users have access that ends, reads the namespaces of the grants again, at most MAX_ENDS times. Raise PlanError if more than `max_grants` grants are needed.
    """
    return _Planner(before, after, prefer, scope or RegrantScope(), max_grants).regrants()


def create_plan_of_regrants(
    *,
    author: Author,
    before: Generation,
    after: Generation,
    prefer: Prefer = Prefer.NARROWEST,
) -> tuple[Plan | None, Regrants]:
    """Create the plan, computed from the current data.

    Return it with its effect; None if no grant is needed or possible.
    """
    check_administrator(author)
    revision = current_revision()
    regrants = compute_regrants(before, after, prefer=prefer, max_grants=MAX_PLAN_ITEMS)
    if not regrants.grants:
        return None, regrants
    draft = PlanDraft(
        title=f"Keep current permissions, from {before.name} to {after.name}",
        changes=regrants.changes,
        base_revision=revision,
        breadth=PlanBreadth.NAMESPACES,
        recipe={
            "generation": before.name,
            "to_generation": after.name,
            "prefer": str(prefer),
            **regrants.counts,
            **regrants.kept_not_recipe,
            "activation": regrants.activation,
            "only_way": regrants.only_way,
            "is_smallest": regrants.is_smallest,
            **({"note": regrants.note_on_ends} if regrants.ends else {}),
        },
    )
    return store_plan(author, PlanOrigin.POLICY_IMPACT, draft), regrants


@dataclass
class _Planner:
    """Choose the grants, stage by stage. Those outside of namespaces also count inside them.

    only: choose among these; None for all grants. given: grants that the users get in any case.
    """

    before: Generation
    after: Generation
    prefer: Prefer
    scope: RegrantScope
    max_grants: int
    only: Collection[UserPrivilege] | None = None
    given: Collection[UserPrivilege] = ()

    def __post_init__(self) -> None:
        self.pairs = rule_pairs_by_kind(self.before, self.after)
        self.users = affected_users([ActivateGeneration(self.after)])
        self.wanted_users = users_in_scope(self.users, self.scope)
        self.is_narrow = self.prefer == Prefer.NARROWEST
        # whether only some of the candidates may be chosen
        self.is_limited = self.is_narrow or self.only is not None
        self.result = Regrants()
        # by user: the chosen grants outside of namespaces, and the given ones
        self._outside: dict[int, set[MissingGrant]] = defaultdict(set)
        bits = {name: bit for bit, name in enumerate(self.users.names)}
        for user, *grant in self.given:
            if user in bits:
                self._outside[bits[user]].add((grant[0], grant[1]))
        self._only = None if self.only is None else masks_by_namespace(self.only, self.users)

    def regrants(self) -> Regrants:
        self._choose_grants()
        self.result.grants.sort(key=lambda grant: (grant[0], grant_order(grant[1:])))
        self._set_ends()
        self._count_effect()
        return self.result

    def _choose_grants(self) -> None:
        instance, namespaces = self._admissible_on_instance(), None
        if self._only is not None and "" not in self._only:
            # a grant outside of namespaces counts in all of them
            namespaces = set(self._only)
        for stage in stages(self.users, namespaces):
            if self.scope.namespace in ("", stage.namespace):
                self._choose(stage, instance)

    def _set_ends(self) -> None:
        """Let each grant end when it is not needed any more, because the access that it keeps has ended."""
        grants = frozenset(self.result.grants)
        waiting, needed = set(grants), set[UserPrivilege]()
        ends = _ends_of_access({user for user, *_ in grants})
        for end in (_ALWAYS, *reversed(ends[1:])) if ends else ():
            if not waiting:
                break
            with at_time(end if end == _ALWAYS else end - timedelta(microseconds=1)):
                planner = _Planner(
                    self.before, self.after, Prefer.FEWEST, self.scope, self.max_grants, grants, needed
                )
                planner._choose_grants()
            needed.update(planner.result.grants)
            waiting -= needed
            if end != _ALWAYS:
                self.result.ends |= dict.fromkeys(planner.result.grants, end)
        if ends:
            self.result.ends |= dict.fromkeys(waiting, ends[0])

    def _admissible_on_instance(self) -> dict[int, int]:
        """Return, by number of the privilege, the users that may get it on the instance.

        A grant on the instance counts in all namespaces, so this reads all of them, unless no requirement
        refers to the instance.
        """
        kinds = dependent_kinds("instance", rules_by_kind(self.after, (self.before,)).values())
        if not kinds:
            return {}
        admissible, bad = dict.fromkeys(range(len(ANY)), 0), dict.fromkeys(range(len(ANY)), 0)
        for stage in stages(self.users):
            extras = {
                number: ExtraGrants(stage, {(stage.instance, number): stage.everyone})
                for number in admissible
                if stage.instance is not None
            }
            nodes = [node for node in stage.live if node.kind in kinds]
            for decision in decisions(stage, self.pairs, nodes=nodes):
                node, requirement = decision.node, decision.pair.after
                numbers = {
                    NUMBERS[privilege]
                    for leaf in FactsRead(requirement).held
                    if leaf.scope != Scope.SELF and node.pk_at(leaf.scope, stage.instance) == stage.instance
                    for privilege in leaf.privileges
                }
                for number in numbers & extras.keys():
                    admissible[number] |= decision.lost
                    gained = users_meeting(requirement, StageSource(stage, node, extras[number]))
                    bad[number] |= gained & ~decision.permitted & ~decision.now
        if self.is_narrow:
            return {number: mask & ~bad[number] for number, mask in admissible.items()}
        return admissible

    def _choose(self, stage: Stage, instance: Mapping[int, int]) -> None:
        """Choose the grants for one stage. instance: see `_admissible_on_instance`."""
        needs = [
            (decision, mask)
            for decision in decisions(stage, self.pairs)
            if (mask := decision.lost & self.wanted_users)
        ]
        if not needs:
            return
        candidates = self._candidates(stage, needs)
        for key in [key for key in candidates if key[0] == stage.instance]:
            candidates[key] &= instance.get(key[1], 0)
        if self._only is not None:
            only = ExtraGrants.of(stage, self._only).masks
            candidates = {key: mask & only.get(key, 0) for key, mask in candidates.items()}
        allowed: dict[int, set[MissingGrant]] = defaultdict(set)
        if self.is_narrow:
            bad = self._single_side_effects(stage, candidates)
            candidates = {key: mask & ~bad.get(key, 0) for key, mask in candidates.items()}
        if self.is_limited:
            for (pk, number), mask in candidates.items():
                address = stage.nodes[pk].address if pk in stage.nodes else instance_address()
                for bit in bits_of(mask):
                    allowed[bit].add((address, ANY[number]))
        wanted: dict[int, list[Question]] = defaultdict(list)
        # of all candidates together
        side_effects: dict[int, list[Question]] = defaultdict(list)
        for decision in decisions(stage, self.pairs, ExtraGrants(stage, candidates)):
            for bit in bits_of(decision.lost & decision.then & self.wanted_users):
                wanted[bit].append(self._question(bit, decision))
            for bit in bits_of(decision.side_effect) if self.is_narrow else ():
                side_effects[bit].append(self._question(bit, decision))
        for bit, questions in sorted(wanted.items()):
            self._choose_for_user(stage, bit, questions, allowed[bit], side_effects.get(bit, []))

    def _choose_for_user(
        self,
        stage: Stage,
        bit: int,
        questions: list[Question],
        allowed: set[MissingGrant],
        side_effects: list[Question],
    ) -> None:
        facts, chosen = StageFacts(stage, 1 << bit), NewGrants()
        outside = self._outside[bit]
        for grant in outside:
            chosen.add(grant)
        if side_effects:
            allowed = _Search(allowed - outside, questions, side_effects, facts, outside).best_grants()
        denials = denials_of(questions, facts, allowed | outside if self.is_limited else None)
        minimal = fewest_grants(
            denials, chosen, max_grants=self.max_grants, grant_count=len(self.result.grants)
        )
        name = self.users.names[bit]
        self.result.grants += [(name, *grant) for grant in minimal.grants]
        self.result.only_way += minimal.only_way
        self.result.is_smallest = self.result.is_smallest and minimal.is_smallest
        outside.update(grant for grant in minimal.grants if grant[0].namespace is None)

    def _candidates(self, stage: Stage, needs: Iterable[tuple[Decision, int]]) -> dict[GrantKey, int]:
        """Return the grants that the requirements of lost permissions name, with the users who lose them."""
        candidates: dict[GrantKey, int] = defaultdict(int)
        for decision, mask in needs:
            node, read = decision.node, FactsRead(decision.pair.after)
            for leaf in read.held:
                pk = node.pk_at(leaf.scope, stage.instance)
                if pk is not None:
                    for privilege in leaf.privileges:
                        candidates[pk, NUMBERS[privilege]] |= mask
            if read.is_at_or_below:
                inside = stage.live_inside(node, None) if node.kind in CONTAINER_KINDS else ()
                for near in (node, *inside):
                    for number in range(len(ANY)):
                        candidates[near.pk, number] |= mask
            for all_live in read.all_live:
                for inner in stage.live_inside(node, all_live.kind):
                    candidates[inner.pk, NUMBERS[all_live.privilege]] |= mask
        # who holds a privilege needs no grant of it
        return {
            (pk, number): missing
            for (pk, number), mask in candidates.items()
            if (missing := mask & ~stage.holders(pk)[number])
        }

    def _single_side_effects(self, stage: Stage, candidates: Mapping[GrantKey, int]) -> dict[GrantKey, int]:
        """Return, by candidate, the users for which it alone has a side effect."""
        bad: dict[GrantKey, int] = defaultdict(int)
        inside = _inside_candidates(stage, candidates)
        of_containers = {
            key: ExtraGrants(stage, {key: mask})
            for key, mask in candidates.items()
            if key[0] in stage.nodes and stage.nodes[key[0]].kind in CONTAINER_KINDS
        }
        for node in stage.live:
            near = {node.pk, node.parent, node.application, node.namespace} - {stage.instance, None}
            extras = {
                key: of_containers.get(key) or ExtraGrants(stage, {key: candidates[key]})
                for pk in near
                for number in range(len(ANY))
                if (key := (pk, number)) in candidates
            }
            for decision in decisions(stage, self.pairs, nodes=[node]) if extras or node.pk in inside else ():
                requirement, others = decision.pair.after, ~decision.permitted & ~decision.now
                for key, extra in extras.items():
                    bad[key] |= users_meeting(requirement, StageSource(stage, node, extra)) & others
                if node.pk in inside:
                    # any grant inside counts in the same way; those that complete a rule over all live
                    # entities follow later
                    users = ExtraGrants(stage, {})
                    users.inside[node.pk] = reduce(or_, (candidates[key] for key in inside[node.pk]))
                    gained = users_meeting(requirement, StageSource(stage, node, users)) & others
                    for key in inside[node.pk] if gained else ():
                        bad[key] |= gained
        return bad

    def _question(self, bit: int, decision: Decision) -> Question:
        name, operation = self.users.names[bit], decision.pair.operations[0]
        return Question("user", name, operation, decision.node.address, self.after.name)

    def _count_effect(self) -> None:
        """Evaluate all decisions with the chosen grants, and set the counts of the result.

        Kept and lost permissions are counted in the scope; side effects and what the activation changes
        everywhere.
        """
        result, masks = self.result, masks_by_namespace(self.result.grants, self.users)
        counts, activation = result.counts, result.activation
        for stage in stages(self.users):
            scope = self.wanted_users if self.scope.namespace in ("", stage.namespace) else 0
            for decision in decisions(stage, self.pairs, ExtraGrants.of(stage, masks)):
                _, pair, permitted, now, then = decision
                number = len(pair.operations)
                counts["kept"] += number * (permitted & then & scope).bit_count()
                if kept_not := number * (permitted & ~then & scope).bit_count():
                    counts["kept_not"] += kept_not
                    result.kept_not_in[stage.namespace] = (
                        result.kept_not_in.get(stage.namespace, 0) + kept_not
                    )
                result.lost += number * (decision.lost & scope).bit_count()
                counts["beyond_gained"] += number * decision.side_effect.bit_count()
                counts["beyond_lost"] += number * (now & ~then).bit_count()
                activation["given"] += number * (now & ~permitted).bit_count()
                activation["taken"] += number * decision.lost.bit_count()
                activation["given_with_plan"] += number * (then & ~permitted).bit_count()
                activation["taken_with_plan"] += number * (permitted & ~then).bit_count()


def _ends_of_access(users: Collection[str]) -> list[datetime]:
    """Return the ends of the grants and memberships in force of these users, in order: at most MAX_ENDS of them, with the
    first one. Runs three queries.
    """
    ends: set[datetime] = set()
    for source in GRANT_SOURCES[USER.name]:
        for path in {"", source.membership}:
            column = f"{path}valid_until"
            # another call of filter() would also read the ends of other memberships in the same group
            where = {f"{source.subject}__username__among": list(users), f"{column}__isnull": False}
            ends.update(source.rows(**where).order_by().values_list(column, flat=True).distinct())
    step = max(1, -(-len(ends) // MAX_ENDS))
    return sorted(ends)[::step]


def _inside_candidates(stage: Stage, candidates: Mapping[GrantKey, int]) -> dict[int, list[GrantKey]]:
    """Return the candidates strictly inside each container."""
    inside: dict[int, list[GrantKey]] = defaultdict(list)
    for pk, number in candidates:
        if pk in stage.nodes:
            for container in stage.containers(stage.nodes[pk]) - {pk}:
                inside[container].append((pk, number))
    return inside


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


class _Search:
    """Search for a subset of `allowed` that permits none of the side effects, and as many of the wanted
    questions as possible.

    Every single grant is free of side effects, so only grants together can have one. At least one of those
    that meet a side effect must be left out; the search tries each of them, up to MAX_SEARCH_STEPS. fixed:
    grants that the user gets in any case.
    """

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
