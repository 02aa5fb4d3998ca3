"""Match an entity with the levels of a policy, as a version of Ranger does.

The names of an entity, from the instance down, are compared with the levels of a policy. Where one of them
ends before the other, the versions differ, and the differences are the values of `Rules`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from enum import Enum, auto

from authzconsole.connections.ranger.policies import KIND_OF_LEVEL, Feature, Level, Policy
from entities.address import Address, ancestor_kinds
from entities.frozen import frozen
from entities.vocabulary import Privilege

KINDS_IN_RANGER = frozenset(KIND_OF_LEVEL.values())


class Match(Enum):
    """What the levels of a policy are for an entity (`RangerPolicyResourceMatcher.MatchType`)."""

    NONE = auto()
    # the names of all levels
    SELF = auto()
    # the names of the entity, and `*` at all levels that the entity does not have
    SELF_AND_CONTENT = auto()
    # names of what the entity contains
    CONTENT = auto()
    # the names of a container of the entity; the policy has no further level
    CONTAINER = auto()


@frozen
class Rules:
    """How a version of Ranger evaluates.

    held: the matches by which a policy decides about a privilege on an entity. shown: those by which it shows
    the entity. counts_excludes: whether an excluded `*` counts where an entity has no name at this level
    (RANGER-2415). features: what this version applies beyond 0.7. visible_by: the questions that show an
    entity if one of them is answered with yes; None is any privilege.
    """

    name: str
    held: frozenset[Match]
    shown: frozenset[Match]
    counts_excludes: bool
    features: frozenset[Feature]
    visible_by: tuple[Privilege | None, ...]


# What the plugin of CDAP bundles. Its RangerDefaultPolicyResourceMatcher calls SELF_AND_CONTENT an ancestor
# too, and RangerDefaultPolicyEvaluator accepts an ancestor in place of the entity itself.
RANGER_0_7 = Rules(
    name="0.7",
    held=frozenset({Match.SELF, Match.SELF_AND_CONTENT, Match.CONTAINER}),
    shown=frozenset(Match) - {Match.NONE},
    counts_excludes=False,
    features=frozenset(),
    visible_by=(None,),
)
# The policy of a container no longer decides about its content. Visibility is asked for each privilege.
RANGER_2 = Rules(
    name="2",
    held=frozenset({Match.SELF, Match.SELF_AND_CONTENT}),
    shown=frozenset({Match.SELF, Match.SELF_AND_CONTENT, Match.CONTENT}),
    counts_excludes=True,
    features=frozenset(Feature),
    visible_by=tuple(Privilege),
)


def names_of(address: Address) -> tuple[str, ...]:
    """Return the names of an entity and its containers, from the instance down."""
    return tuple(part.name for part in (*address.ancestors, address))


class PolicyIndex:
    """Policies by the kind and the namespace of the entities that they can match."""

    def __init__(self, policies: Iterable[Policy]):
        self._policies: dict[tuple[str, str | None], list[Policy]] = defaultdict(list)
        for policy in policies:
            for kind in KINDS_IN_RANGER:
                if (
                    kind == policy.kind
                    or kind in ancestor_kinds(policy.kind)
                    or policy.kind in ancestor_kinds(kind)
                ):
                    for namespace in _namespaces(policy, kind):
                        self._policies[kind, namespace].append(policy)

    def candidates(self, address: Address) -> Iterator[Policy]:
        """Yield the policies that can match the entity, and others."""
        yield from self._policies.get((address.kind, None), ())
        if namespace := address.namespace:
            yield from self._policies.get((address.kind, namespace.name), ())


def _namespaces(policy: Policy, kind: str) -> Collection[str | None]:
    """Return the namespaces in which the policy can match entities of the kind; None for any, or without one."""
    for level in policy.levels:
        if level.kind == "namespace" and kind != "instance" and len(level.literal_names) == len(level.values):
            return set(level.literal_names) or {None}
    return {None}


def match(levels: tuple[Level, ...], names: tuple[str, ...], rules: Rules) -> Match:
    """Return what the levels of a policy from a `PolicyIndex` are for an entity with these names."""
    if not rules.counts_excludes and all(level.is_any for level in levels):
        return Match.SELF_AND_CONTENT
    if not all(level.has_name(name) for level, name in zip(levels, names, strict=False)):
        return Match.NONE
    if len(names) > len(levels):
        return Match.CONTAINER
    rest = levels[len(names) :]
    if rules.counts_excludes and any(level.is_any and level.is_excluded for level in rest):
        return Match.NONE
    if not rest:
        return Match.SELF
    return Match.SELF_AND_CONTENT if all(level.is_any for level in rest) else Match.CONTENT
