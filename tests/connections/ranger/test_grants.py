"""Policies as grants, and grants as policies: they give the same answers, and survive the way there and back."""

from datetime import UTC, datetime
from itertools import product
from random import Random

import pytest

from authzconsole.connections.ranger.evaluation import Enforcer, Subject
from authzconsole.connections.ranger.matching import RANGER_0_7
from authzconsole.connections.ranger_grants import crossing_addresses, grants_of, policies_of
from entities.address import parse_address, parse_grantable
from entities.patterns import matches, reveals
from entities.vocabulary import Privilege
from grants.change_set import Grant
from grants.validity import Validity
from tests.connections.ranger.policy_files import NOTHING_BELOW, item, policy, policy_file
from tests.connections.ranger.test_cdap_answers import ANSWERS, POLICIES

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SPRING = Validity(datetime(2099, 3, 1, tzinfo=UTC), datetime(2099, 6, 1, tzinfo=UTC))
ENTITIES = [
    parse_address(text)
    for text in (
        "instance:cdap",
        *(f"namespace:{name}" for name in ("a", "ab", "b")),
        *(f"application:{ns}.{name}" for ns, name in product(("a", "ab", "b"), ("a", "ab"))),
        *(
            f"program:{ns}.a.{name}"
            for ns, name in product(("a", "ab"), ("spark.a", "spark.ab", "workflow.a"))
        ),
        *(f"dataset:{ns}.{name}" for ns, name in product(("a", "ab", "b"), ("a", "ab", "b"))),
        *(f"artifact:{ns}.{name}" for ns, name in product(("a", "ab"), ("a", "b"))),
        "kerberosprincipal:a",
    )
]


def holds(grants, address, privilege) -> bool:
    return any(
        grant.privilege is privilege
        and (matches(grant.address, address) if grant.address.is_pattern else grant.address == address)
        for grant in grants
    )


def is_shown(grants, address) -> bool:
    """Return whether something on or inside the entity is granted. Only what is registered counts."""
    return any(
        holds(grants, entity, privilege)
        for entity in ENTITIES
        if entity == address or address in entity.ancestors
        for privilege in Privilege
    )


def random_policy(random: Random, number: int) -> dict:
    kind_path = random.choice(
        [("namespace",), ("namespace", "dataset"), ("namespace", "application"), ("namespace", "artifact")]
        + [("namespace", "application", "program"), ("principal",), ()]
    )
    values = ["a", "ab", "b", "a*", "?", "?*", "*", "a ab"]
    levels = {
        level: random.choice(["spark.a", "spark.?*", "*", "?*"])
        if level == "program"
        else random.choice([*values, NOTHING_BELOW])
        for level in kind_path
    }
    accesses = " ".join(random.sample(["read", "write", "execute", "admin"], random.randint(1, 2)))
    return policy(random.choice(["ann", "bob"]), accesses, name=f"p{number}", **levels)


@pytest.mark.parametrize("seed", range(40))
def test_grants_of_policies_give_the_answers_that_the_plugin_of_cdap_gives(seed):
    random = Random(seed)
    file = policy_file(*(random_policy(random, number) for number in range(random.randint(1, 3))))
    grants, _ = grants_of(file)
    enforcer = Enforcer(file, RANGER_0_7, NOON)
    for user, address in product(("ann", "bob"), ENTITIES):
        own = [grant for grant in grants if grant.principal == f"user:{user}"]
        for privilege in Privilege:
            expected = enforcer.enforce(Subject(user), address, privilege)
            assert holds(own, address, privilege) == expected, (user, str(address), privilege, grants)
        assert not is_shown(own, address) or enforcer.is_visible(Subject(user), address), (user, str(address))


@pytest.mark.parametrize("seed", range(40))
def test_patterns_that_cross_levels_match_each_name_that_only_the_console_matches(seed):
    random = Random(seed)
    names = ("a", "b", "a.b", "b.a", "a.a.b")
    dotted = [f"dataset:{ns}.{name}" for ns, name in product("ab", names)]
    programs = [
        f"program:a.{application}.spark.{name}" for application, name in product(("a", "spark"), "ab")
    ]
    differences = 0
    for _ in range(30):
        values = ["a", "b", "*", "a*", "*b", "?", "a?b", "?*", "s*"]
        levels = [random.choice(values), random.choice(values)]
        parts = dict(zip(("namespace", "dataset"), levels, strict=True))
        if random.random() < 0.5:
            parts = dict(zip(("namespace", "application"), levels, strict=True))
            parts["program"] = random.choice(["*", "?*", "spark.*", "spark.a"])
        file = policy_file(policy("ann", **parts))
        grants, enforcer = grants_of(file)[0], Enforcer(file, RANGER_0_7, NOON)
        crossing = [each for grant in grants for each in crossing_addresses(grant.address)]
        for address in map(parse_address, [*dotted, *programs]):
            is_given = enforcer.enforce(Subject("ann"), address, Privilege.READ)
            differs = holds(grants, address, Privilege.READ) != is_given
            differences += differs
            assert not differs or any(matches(one, address) for one in crossing), (str(address), parts)
        # where no name can differ, nothing is said
        if "*" not in levels[0] and "?" not in levels[0] and "dataset" in parts:
            assert crossing == []
    assert differences


@pytest.mark.parametrize("line", ANSWERS)
def test_grants_of_policies_give_the_answers_that_cdap_expects(line):
    user, question, text, answer = line.split()
    grants, notes = grants_of(policy_file(*POLICIES))
    own, address = [grant for grant in grants if grant.principal == f"user:{user}"], parse_address(text)
    given = (
        any(
            grant.address == address
            or address in grant.address.ancestors
            or (
                grant.address.is_pattern
                and (matches(grant.address, address) or reveals(grant.address, address))
            )
            for grant in own
        )
        if question == "sees"
        else holds(own, address, Privilege[question])
    )
    assert given == (answer == "yes")
    assert notes == []


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"dataset": {"values": ["pay"], "isExcludes": True}}, "excludes names"),
        ({"instance": "other"}, "about the instance `other`"),
        ({"dataset": "a b{c}"}, "cannot be granted"),
        ({"denyPolicyItems": [item("bob")]}, "deny items"),
        ({"policyItems": [item("bob", delegateAdmin=True)]}, "`delegateAdmin`"),
        ({"policyItems": [item("{USER}", groups=["public"])]}, "users that are not named"),
        ({"validitySchedules": [{"startTime": "", "endTime": ""}] * 2}, "several validity schedules"),
        (
            {"validitySchedules": [{"startTime": "2026/03/01 00:00:00", "recurrences": [{}]}]},
            "a recurring schedule; it is not taken over",
        ),
        (
            {"validitySchedules": [{"startTime": "2026/03/01 00:00:00", "endTime": "2026/02/01 00:00:00"}]},
            "a schedule that no grant can have: the end 2026-02-01T00:00:00Z is not after",
        ),
        (
            {"validitySchedules": [{"startTime": "", "endTime": "2026/02/01 00:00:00"}]},
            "the end 2026-02-01T00:00:00Z is in the past; it is not taken over",
        ),
        ({"policyItems": [item(groups=["role:lead"])]}, "group:role:lead: `group:role:lead` is a role"),
        ({"namespace": "s*", "dataset": "a"}, "names with dots"),
    ],
)
def test_what_is_not_taken_over_is_reported(parts, reason):
    _, notes = grants_of(policy_file(policy("ann", **({"namespace": "sales", "dataset": "pay"} | parts))))
    assert any(reason in note.reason for note in notes), notes


def test_a_schedule_and_roles_are_taken_over():
    schedule = {
        "startTime": "2099/03/01 01:00:00",
        "endTime": "2099/06/01 02:00:00",
        "timeZone": "Europe/Berlin",
    }
    policies = policy(
        namespace="sales", dataset="a", validitySchedules=[schedule], policyItems=[item(roles=["lead"])]
    )
    grants, notes = grants_of(policy_file(policies))
    assert list(grants) == [Grant("role:lead", parse_address("dataset:sales.a"), Privilege.READ, SPRING)]
    assert notes == []


@pytest.mark.parametrize("seed", range(40))
def test_policies_of_grants_give_exactly_these_grants_again(seed):
    random = Random(1000 + seed)
    texts = [
        *map(str, ENTITIES),
        "dataset:a.*",
        "dataset:*.b",
        "program:a.*.spark.*",
        "namespace:a?",
        "dataset:*",
    ]
    grants = [
        Grant(
            random.choice(["user:ann", "group:team", "role:lead"]),
            parse_grantable(text),
            random.choice(list(Privilege)),
            random.choice([Validity(), SPRING]),
        )
        for text in random.sample(texts, 12)
    ]
    exported, _ = policies_of(grants, service="cdapdev")
    imported, _ = grants_of(policy_file(*exported))
    again, _ = policies_of(imported, service="cdapdev")
    assert again == exported
    assert set(imported) == set(grants)
