"""Create small random tenants, and evaluate requirements with a reference: loops over lists.

All evaluators of the product are tested against the reference.
"""

import contextlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone

from entities.address import Address, instance_address, parse_address, parse_grantable
from entities.models import PATTERN, Entity, State
from entities.patterns import matches, reveals
from entities.services import ensure_entities
from entities.vocabulary import ANY, KINDS, PROGRAM_TYPES, Privilege, child_kinds
from grants.change_set import Activate, Deactivate, Exclude, Grant, Include, Join, Leave, Revoke
from grants.derived import derive_from_grants
from grants.effects.changes import StateChange
from grants.evaluation.engine import check_many
from grants.models import (
    PRINCIPAL_TYPES,
    GroupGrant,
    Membership,
    RoleGroup,
    User,
    UserGrant,
    permission_ids,
)
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
)
from grants.policies.policy import LATER_KINDS
from grants.policies.principals import group_text, type_and_name
from grants.policies.question import Question, context_members
from grants.role_members import write_role_memberships
from grants.validity import Validity, at_time
from tests.support.cast import created_for_several_tests

# Kinds directly inside a namespace that contain nothing. A test that registers kinds adds them.
KINDS_OF_LEAVES = [
    kind.name
    for kind in child_kinds("namespace")
    if not child_kinds(kind.name) and kind.name not in LATER_KINDS
]


@dataclass
class Tenant:
    """A tenant in memory.

    entities: state by address. users: (is active, is a principal) by name. groups: members by name, also of roles.
    grants: (principal, address, privilege). patterns: the same of the grants on patterns. role_groups: the groups in each
    role. role_users: the users in each role with groups that are its members themselves.
    """

    entities: dict[Address, str] = field(default_factory=dict)
    users: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    grants: set[tuple[str, Address, Privilege]] = field(default_factory=set)
    patterns: set[tuple[str, Address, Privilege]] = field(default_factory=set)
    role_groups: dict[str, list[str]] = field(default_factory=dict)
    role_users: dict[str, list[str]] = field(default_factory=dict)

    def expand_roles(self) -> None:
        """Set the members of the roles with groups."""
        for role, groups in self.role_groups.items():
            members = [*self.role_users[role], *(user for group in groups for user in self.groups[group])]
            self.groups[role] = sorted(set(members))

    def own_members(self, group: str) -> list[str]:
        """Return the members without those through a group."""
        return self.role_users.get(group, self.groups[group])

    def holders(self, subject_type: str, subject: str) -> list[str] | None:
        """Return the principals whose grants are effective for the subject; None if it is unknown or
        inactive.
        """
        if subject_type == "group":
            roles = [role for role, groups in self.role_groups.items() if subject in groups]
            return [group_text(subject), *roles] if subject in self.groups else None
        if self.users.get(subject) != (True, True):
            return None
        return [
            f"user:{subject}",
            *(group_text(name) for name, members in self.groups.items() if subject in members),
        ]


def seeds(values: Sequence[int]) -> Sequence[int]:
    """Return the seeds to test with: every second one on SQLite, and the others on PostgreSQL.

    A single seed runs on both.
    """
    return values[1::2] or values if connection.vendor == "postgresql" else values[::2]


def random_tenant(
    seed: int, *, has_patterns: bool = False, has_roles: bool = False, has_later_kinds: bool = False
) -> Tenant:
    """Return a tenant with every kind and state, and so many grants that questions are permitted and denied.

    has_roles: most tenants have a role with users and groups. has_later_kinds: also entities of `LATER_KINDS`.
    """
    dice = random.Random(seed)
    tenant = Tenant({instance_address(): State.LIVE})
    for number in range(dice.randint(2, 4)):
        _fill_namespace(dice, tenant, f"ns{number}")
    for number in range(2):
        tenant.entities[parse_address(f"kerberosprincipal:etl{number}/host@REALM")] = dice.choice(
            State.values
        )
    tenant.users = {
        f"user {n}": (dice.random() < 0.85, dice.random() < 0.9) for n in range(dice.randint(4, 7))
    }
    tenant.groups = {
        f"group {n}": [u for u in tenant.users if dice.random() < 0.4] for n in range(dice.randint(1, 4))
    }
    if has_roles and dice.random() < 0.7:
        tenant.role_groups = {"role:role": [group for group in tenant.groups if dice.random() < 0.5]}
        tenant.role_users = {"role:role": [u for u in tenant.users if dice.random() < 0.2]}
        tenant.expand_roles()
    principals = _principals(tenant)
    density = dice.choice([0.03, 0.1, 0.3])
    for address in tenant.entities:
        for principal in principals:
            # more ADMIN than other privileges, so that some namespaces can be deleted
            privileges = [
                p for p in Privilege if dice.random() < density * (2.5 if p is Privilege.ADMIN else 1)
            ]
            tenant.grants.update((principal, address, privilege) for privilege in privileges)
    for address in [a for a in tenant.entities if a.kind == "namespace"]:
        _make_administrator(dice, tenant, address, principals)
    if has_later_kinds:
        _add_later_kinds(random.Random(f"later {seed}"), tenant, principals, density)
    if has_patterns:
        tenant.patterns = random_patterns(tenant, dice)
    return tenant


def random_patterns(tenant: Tenant, dice: random.Random) -> set[tuple[str, Address, Privilege]]:
    """Return grants on random patterns: addresses in which parts are replaced, and a few that match nothing."""
    principals = _principals(tenant)
    addresses = [*sorted(tenant.entities, key=str), parse_address("dataset:ns0.nothing.like.it")]
    return {
        (dice.choice(principals), _random_pattern(dice, dice.choice(addresses)), dice.choice(ANY))
        for _ in range(dice.randint(3, 12))
    }


def _random_pattern(dice: random.Random, address: Address) -> Address:
    key = address.key
    for _ in range(dice.randint(1, 3)):
        begin = dice.randrange(len(key) + 1)
        end = begin + dice.choice([0, 1, 3, len(key)])
        key = key[:begin] + dice.choice("*?" if end == begin + 1 else "*") + key[end:]
    return parse_grantable(f"{address.kind}:{key}")


def _principals(tenant: Tenant) -> list[str]:
    return [*(f"user:{name}" for name in tenant.users), *map(group_text, tenant.groups)]


def _add_later_kinds(dice: random.Random, tenant: Tenant, principals: list[str], density: float) -> None:
    """Add entities of the kinds that only some generations have rules for, and grants on them."""
    namespaces = [address.key for address in tenant.entities if address.kind == "namespace"]
    texts = ["system_service:log.saver", "system_service:metrics"]
    for namespace in namespaces:
        texts += [f"profile:{namespace}.small", f"system_app_entity:{namespace}.app.connection.crm"]
    for text in texts:
        address = parse_address(text)
        tenant.entities[address] = dice.choice(State.values + [State.LIVE] * 4)
        tenant.grants.update(
            (principal, address, privilege)
            for principal in principals
            for privilege in Privilege
            if dice.random() < density
        )


def _make_administrator(
    dice: random.Random, tenant: Tenant, namespace: Address, principals: list[str]
) -> None:
    """Grant a random principal ADMIN on the namespace and the entities inside it, except for at most two of
    them.
    """
    administrator = dice.choice(principals)
    addresses = [a for a in tenant.entities if a.namespace == namespace]
    exceptions = dice.sample(addresses, k=min(len(addresses), dice.choice([0, 0, 1, 2])))
    tenant.grants.update(
        (administrator, address, Privilege.ADMIN) for address in addresses if address not in exceptions
    )


def _fill_namespace(dice: random.Random, tenant: Tenant, name: str) -> None:
    tenant.entities[Address("namespace", name)] = dice.choice(State.values + [State.LIVE] * 4)
    for number in range(dice.randint(0, 2)):
        application = Address("application", f"{name}.app{number}")
        tenant.entities[application] = dice.choice(State.values + [State.LIVE] * 4)
        for program in range(dice.randint(0, 3)):
            kind = dice.choice(PROGRAM_TYPES)
            address = Address("program", f"{application.key}.{kind}.p{program}")
            tenant.entities[address] = dice.choice(State.values + [State.LIVE] * 4)
    for kind in KINDS_OF_LEAVES:
        for number in range(dice.randint(0, 2)):
            tenant.entities[Address(kind, f"{name}.{kind}{number}")] = dice.choice(
                State.values + [State.LIVE] * 4
            )


@dataclass(frozen=True)
class TimedTenant:
    """A tenant with periods of its grants and memberships. The key of a membership is (user, group) or (group, role).

    moments: the limits of the periods, and the last microseconds before them.
    """

    tenant: Tenant
    periods: dict[tuple, Validity]
    moments: list[datetime]

    def at(self, moment: datetime) -> Tenant:
        """Return the tenant without the grants and memberships that are not in force."""

        def in_force(members: dict[str, list[str]]) -> dict[str, list[str]]:
            return {
                group: [name for name in names if self.periods[name, group].includes(moment)]
                for group, names in members.items()
            }

        tenant = replace(
            self.tenant,
            groups=in_force({name: self.tenant.own_members(name) for name in self.tenant.groups}),
            grants={grant for grant in self.tenant.grants if self.periods[grant].includes(moment)},
            role_groups=in_force(self.tenant.role_groups),
            role_users=in_force(self.tenant.role_users),
        )
        tenant.expand_roles()
        return tenant


def random_timed_tenant(seed: int, *, has_roles: bool = False) -> TimedTenant:
    """Return a tenant with few different limits, so that many periods begin and end together."""
    tenant, dice = random_tenant(seed, has_roles=has_roles), random.Random(seed)
    start = timezone.now().replace(microsecond=0)
    limits = sorted(start + timedelta(hours=hours) for hours in dice.sample(range(-100, 100), 4))
    keys = [
        *sorted(tenant.grants, key=str),
        *((user, name) for name in tenant.groups for user in tenant.own_members(name)),
        *((group, role) for role, groups in tenant.role_groups.items() for group in groups),
    ]
    periods = {
        key: Validity(
            *dice.choice(
                [
                    (None, None),
                    (limits[dice.randrange(4)], None),
                    (None, limits[dice.randrange(4)]),
                    tuple(sorted(dice.sample(limits, 2))),
                ]
            )
        )
        for key in keys
    }
    return TimedTenant(tenant, periods, [*limits, *(limit - timedelta(microseconds=1) for limit in limits)])


def store_tenant(
    tenant: Tenant, periods: dict[tuple, Validity] | None = None, *, has_periods: bool = True
) -> None:
    """Insert the tenant into the database, in bulk.

    periods: those of a TimedTenant. By default, some grants and memberships get limits that include today,
    and others are added that have not begun, or have ended: no evaluator may find them.
    """
    rows, dice = _insert_entities(tenant), random.Random(len(tenant.grants))
    extra_grants, extra_members = (
        (set(), 0.0) if periods or not has_periods else (_grants_out_of_force(tenant, dice), 0.3)
    )

    def validity(key: tuple, is_in_force: bool) -> dict[str, datetime | None]:
        if not has_periods:
            return {}
        return periods[key]._asdict() if periods else random_validity(dice, is_in_force=is_in_force)

    users = {
        name: User(username=name, is_active=is_active, is_principal=is_principal)
        for name, (is_active, is_principal) in tenant.users.items()
    }
    User.objects.bulk_create(users.values())
    groups = {name: Group(name=name) for name in tenant.groups}
    Group.objects.bulk_create(groups.values())
    Membership.objects.bulk_create(
        Membership(user=user, group=groups[name], **validity((user.username, name), user.username in members))
        for name, members in ((name, tenant.own_members(name)) for name in tenant.groups)
        for user in users.values()
        if user.username in members or dice.random() < extra_members
    )
    patterns = {address for _, address, _ in tenant.patterns}
    rows |= ensure_entities(states=dict.fromkeys(patterns, State.PLANNED)).rows
    RoleGroup.objects.bulk_create(
        RoleGroup(role=groups[role], group=groups[name], **validity((name, role), True))
        for role, names in tenant.role_groups.items()
        for name in names
    )
    write_role_memberships([group.pk for group in groups.values()])
    made, ids, now = tenant.grants | tenant.patterns, permission_ids(), timezone.now()
    user_grants, group_grants = [], []
    for principal, address, privilege in sorted(made | extra_grants, key=str):
        kind, name = type_and_name(principal)
        entity = rows[address]
        columns = {
            "content_object": entity,
            "permission_id": ids[privilege],
            "granted_at": now,
            "namespace_id": entity.namespace_id,
            "application_id": entity.application_id,
            "entity_kind": entity.kind,
            **validity((principal, address, privilege), (principal, address, privilege) in made),
        }
        if kind == "user":
            user_grants.append(UserGrant(user=users[name], **columns))
        else:
            group_grants.append(GroupGrant(group=groups[name], **columns))
    UserGrant.objects.bulk_create(user_grants)
    GroupGrant.objects.bulk_create(group_grants)
    for principal_type in PRINCIPAL_TYPES.values():
        on_patterns = principal_type.grants.filter(content_object__state=PATTERN)
        derive_from_grants(principal_type, on_patterns.values_list("pk", flat=True))


def _grants_out_of_force(tenant: Tenant, dice: random.Random) -> set[tuple[str, Address, Privilege]]:
    """Return random grants that the tenant does not have, some of them on every address."""
    principals = _principals(tenant)
    grants = {
        (dice.choice(principals), address, dice.choice(ANY))
        for address in sorted(tenant.entities, key=str)
        for _ in "12"
    }
    return grants - tenant.grants


def random_validity(dice: random.Random, *, is_in_force: bool) -> dict[str, datetime]:
    """Return random columns of a validity that includes now, or that does not."""
    now, day = timezone.now().replace(microsecond=0), timedelta(days=1)
    choices: list[dict[str, datetime]] = [
        {"valid_from": now + day},
        {"valid_until": now},
        {"valid_from": now - 2 * day, "valid_until": now - day},
    ]
    if is_in_force:
        choices = [
            {},
            {},
            {},
            {"valid_from": now},
            {"valid_until": now + day},
            {"valid_from": now - day, "valid_until": now + day},
        ]
    return dice.choice(choices)


def _insert_entities(tenant: Tenant) -> dict[Address, Entity]:
    """Insert one level of the tree after the other, because a row refers to its containers by primary key."""
    rows: dict[Address, Entity] = {}
    by_depth = sorted(tenant.entities, key=lambda address: len(address.ancestors))
    for _, addresses in itertools.groupby(by_depth, key=lambda address: len(address.ancestors)):
        level = {
            address: Entity(
                kind=address.kind,
                key=address.key,
                state=tenant.entities[address],
                parent=rows.get(address.parent),
                namespace=rows.get(address.namespace),
                application=rows.get(address.application),
            )
            for address in addresses
        }
        Entity.objects.bulk_create(level.values())
        rows |= level
        for address in {address.namespace for address in level} | {address.application for address in level}:
            if address in level:
                container = level[address]
                setattr(container, container.kind, container)
                container.save(update_fields=[container.kind])
    return rows


@contextlib.contextmanager
def stored_for_several_tests(tenant: Tenant, django_db_blocker) -> Iterator[Tenant]:
    """Store the tenant like `created_for_several_tests`."""
    with created_for_several_tests(lambda: store_tenant(tenant), django_db_blocker):
        yield tenant


def reference_is_permitted(tenant: Tenant, question: Question) -> bool:
    """Decide a question by evaluating each expression literally."""
    holders = tenant.holders(question.subject_type, question.subject)
    policy = GENERATIONS[question.generation].policy(question.target.kind, question.operation)
    if holders is None or policy is None or policy.requirement is None:
        return False
    return _is_met(tenant, holders, policy.requirement, question)


def _is_any_held(tenant: Tenant, holders: list[str], address: Address | None, privileges) -> bool:
    return any(
        (holder, address, privilege) in tenant.grants for holder in holders for privilege in privileges
    ) or any(
        holder in holders and privilege in privileges and address is not None and matches(pattern, address)
        for holder, pattern, privilege in tenant.patterns
    )


def _is_inside(address: Address, container: Address) -> bool:
    return container in address.ancestors


def _is_met(tenant: Tenant, holders: list[str], expression, question: Question) -> bool:
    match expression:
        case Has(privileges, scope):
            return _is_any_held(tenant, holders, question.address_at(scope), privileges)
        case HasAtOrBelow():
            return any(
                _is_any_held(tenant, holders, address, ANY)
                for _, address, _ in tenant.grants
                if address == question.target or _is_inside(address, question.target)
            ) or any(
                holder in holders and (matches(pattern, question.target) or reveals(pattern, question.target))
                for holder, pattern, _ in tenant.patterns
            )
        case HasOnAllLive(privilege, kind):
            return all(
                _is_any_held(tenant, holders, address, [privilege])
                for address, state in tenant.entities.items()
                if state == State.LIVE
                and _is_inside(address, question.target)
                and kind in (None, address.kind)
            )
        case AllOf(parts):
            return all(_is_met(tenant, holders, part, question) for part in parts)
        case AnyOf(parts):
            return any(_is_met(tenant, holders, part, question) for part in parts)
        case Given(parameter, then):
            return not question.has_parameter(parameter) or _is_met(tenant, holders, then, question)
        case Always():
            return True
    raise TypeError(expression)


def permitted_decisions(tenant: Tenant, generation: str) -> set[tuple[str, Address, str]]:
    """Return all permitted (user, live address, operation), by the reference."""
    return {
        (user, address, operation)
        for address, state in tenant.entities.items()
        for operation in (KINDS[address.kind].operations if state == State.LIVE else ())
        for user in tenant.users
        if reference_is_permitted(tenant, Question("user", user, operation, address, generation))
    }


def administrator_counts(tenant: Tenant) -> dict[Address, int]:
    """Return the number of active users who hold ADMIN on each live address."""
    holders = [tenant.holders("user", user) or () for user in tenant.users]
    return {
        address: sum(_is_any_held(tenant, each, address, [Privilege.ADMIN]) for each in holders)
        for address, state in tenant.entities.items()
        if state == State.LIVE
    }


def changed_tenant(tenant: Tenant, changes: Iterable) -> Tenant:
    """Return the tenant after changes of grants, memberships, accounts and states of entities."""
    after = deepcopy(tenant)
    for change in changes:
        match change:
            case Grant(principal, address, privilege):
                (after.patterns if address.is_pattern else after.grants).add((principal, address, privilege))
                _make_principal(after, principal)
            case Revoke(principal, address, privilege):
                (after.patterns if address.is_pattern else after.grants).discard(
                    (principal, address, privilege)
                )
            case Join(user, group):
                members = after.role_users if group in after.role_groups else after.groups
                members[group] = [*{*members[group], user}]
                _make_principal(after, f"user:{user}")
            case Leave(user, group):
                members = after.role_users if group in after.role_groups else after.groups
                members[group] = [member for member in members[group] if member != user]
            case Include(group, role):
                after.role_groups[role] = [*{*after.role_groups[role], group}]
            case Exclude(group, role):
                after.role_groups[role] = [name for name in after.role_groups[role] if name != group]
            case Activate(user) | Deactivate(user):
                after.users[user] = (isinstance(change, Activate), after.users[user][1])
            case StateChange(address, state):
                after.entities[address] = state
            case _:
                raise TypeError(change)
    after.expand_roles()
    return after


def _make_principal(tenant: Tenant, principal: str) -> None:
    principal_type, name = type_and_name(principal)
    if principal_type == "user":
        tenant.users[name] = (tenant.users[name][0], True)


def all_questions(tenant: Tenant, *, dice: random.Random):
    """Yield a question for every address, operation or bare privilege, and generation, each with a random
    subject.
    """
    subjects = [("user", name) for name in tenant.users] + [("group", name) for name in tenant.groups]
    subjects += [("user", "nobody"), ("group", "nobody")]
    targets = [
        *tenant.entities,
        parse_address("dataset:ns0.unregistered"),
        parse_address("namespace:unregistered"),
    ]
    for target in targets:
        for operation in (*KINDS[target.kind].operations, *Privilege):
            for generation in GENERATIONS:
                subject_type, subject = dice.choice(subjects)
                yield Question(
                    subject_type,
                    subject,
                    str(operation),
                    target,
                    generation,
                    **_members(tenant, dice, context_members(generation, target.kind, str(operation))),
                )


def permitted(questions: Sequence[Question], moments: Iterable[datetime]) -> list[list[bool]]:
    """Return at each moment which of the questions are permitted, as the database decides them."""
    answers = []
    for moment in moments:
        with at_time(moment):
            answers.append([decision.is_permitted for decision in check_many(questions)])
    return answers


def _members(tenant: Tenant, dice: random.Random, members: tuple[str, ...]) -> dict:
    """Return random values for the members of `context` that the rule reads."""
    kinds = {"artifact": "artifact", "dataset_type": "dataset_type", "owner": "kerberosprincipal"}
    values = {}
    for member in members:
        if member == "artifact_is_new":
            values[member] = dice.random() < 0.5
            continue
        addresses = [address for address in tenant.entities if address.kind == kinds[member]]
        if addresses and dice.random() < 0.7:
            values[member] = dice.choice(addresses)
    return values
