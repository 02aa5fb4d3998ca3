"""Evaluate policies: what a user holds on an entity, and what a user sees, as `RangerAuthorizer` of CDAP asks
Ranger.

Only users are subjects, with their groups and, from Ranger 2 on, their roles.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby

from authzconsole.connections.ranger.matching import (
    Match,
    PolicyIndex,
    Rules,
    match,
    names_of,
)
from authzconsole.connections.ranger.policies import (
    CURRENT_USER,
    PUBLIC_GROUP,
    Feature,
    Item,
    Policy,
    PolicyFile,
)
from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import Privilege


@frozen
class Subject:
    """A user who asks."""

    user: str
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()


class Enforcer:
    """The policies of a file as one version of Ranger enforces them at one time."""

    def __init__(self, file: PolicyFile, rules: Rules, at: datetime):
        self.rules = rules
        has_deny = Feature.DENY in rules.features if file.enables_deny is None else file.enables_deny
        self._features = rules.features - {Feature.DENY} | ({Feature.DENY} if has_deny else set())
        self._policies = PolicyIndex(policy for policy in file.policies if self._is_in_force(policy, at))

    def enforce(self, subject: Subject, address: Address, privilege: Privilege) -> bool:
        """Return whether the user holds the privilege on exactly this entity (`enforce`, scope SELF)."""
        return self.is_held(self.matches(address), subject, privilege)

    def is_visible(self, subject: Subject, address: Address) -> bool:
        """Return whether the user holds anything on the entity or on what it contains (`isVisible`, scope
        SELF_OR_DESCENDANTS with ANY_ACCESS).
        """
        return self.is_shown(self.matches(address), subject)

    def matches(self, address: Address) -> list[tuple[Policy, Match]]:
        """Return the policies that match an entity, those of a higher priority first."""
        names = names_of(address)
        candidates = sorted(self._policies.candidates(address), key=self._priority, reverse=True)
        found = ((policy, match(policy.levels, names, self.rules)) for policy in candidates)
        return [(policy, how) for policy, how in found if how is not Match.NONE]

    def is_held(
        self, matches: Iterable[tuple[Policy, Match]], subject: Subject, privilege: Privilege
    ) -> bool:
        """Answer `enforce` for an entity with these matches."""
        return self._is_allowed(matches, subject, privilege, self.rules.held)

    def is_shown(self, matches: Iterable[tuple[Policy, Match]], subject: Subject) -> bool:
        """Answer `is_visible` for an entity with these matches."""
        matches = list(matches)
        return any(
            self._is_allowed(matches, subject, privilege, self.rules.shown)
            for privilege in self.rules.visible_by
        )

    def _is_allowed(
        self,
        matches: Iterable[tuple[Policy, Match]],
        subject: Subject,
        privilege: Privilege | None,
        counted: frozenset[Match],
    ) -> bool:
        """Return the decision of the highest priority that has one. A denial takes precedence over what
        others of its priority allow. Without a decision, access is denied.
        """
        for _, group in groupby(matches, key=lambda pair: self._priority(pair[0])):
            decisions = {
                self._decision(policy, how, subject, privilege) for policy, how in group if how in counted
            }
            if decisions - {None}:
                return False not in decisions
        return False

    def _decision(
        self, policy: Policy, how: Match, subject: Subject, privilege: Privilege | None
    ) -> bool | None:
        """Return whether a policy allows or denies; None if it decides nothing. What it denies on the content
        of an entity denies nothing on the entity.
        """
        denial = None if how is Match.CONTENT else False
        if (
            self._applies(policy.deny, policy.deny_exceptions, subject, privilege)
            and Feature.DENY in self._features
        ):
            return denial
        exceptions = policy.allow_exceptions if Feature.DENY in self._features else ()
        if self._applies(policy.allow, exceptions, subject, privilege):
            return True
        return denial if policy.denies_all_else and Feature.DENY_ALL_ELSE in self._features else None

    def _applies(
        self,
        items: tuple[Item, ...],
        exceptions: tuple[Item, ...],
        subject: Subject,
        privilege: Privilege | None,
    ) -> bool:
        return any(self._is_about(item, subject, privilege) for item in items) and not any(
            self._is_about(item, subject, privilege) for item in exceptions
        )

    def _is_about(self, item: Item, subject: Subject, privilege: Privilege | None) -> bool:
        if not item.accesses if privilege is None else privilege not in item.accesses:
            return False
        return (
            subject.user in item.users
            or PUBLIC_GROUP in item.groups
            or not subject.groups.isdisjoint(item.groups)
            or (Feature.ROLES in self._features and not subject.roles.isdisjoint(item.roles))
            or (Feature.CURRENT_USER in self._features and CURRENT_USER in item.users)
        )

    def _is_in_force(self, policy: Policy, at: datetime) -> bool:
        has_limits = policy.schedules and Feature.SCHEDULE in self._features
        return not has_limits or any(schedule.contains(at) for schedule in policy.schedules)

    def _priority(self, policy: Policy) -> int:
        return policy.priority if Feature.PRIORITY in self._features else 0
