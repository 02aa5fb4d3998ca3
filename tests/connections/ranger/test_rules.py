"""The rules of Ranger 0.7 and of Ranger 2, one policy for each. Each docstring names the class that has the rule."""

from datetime import UTC, datetime

import pytest

from authzconsole.connections.ranger.evaluation import Enforcer, Subject
from authzconsole.connections.ranger.matching import RANGER_0_7, RANGER_2
from entities.address import parse_address
from entities.vocabulary import Privilege
from tests.connections.ranger.policy_files import NOTHING_BELOW, item, policy, policy_file

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BOTH, OLD, NEW, NEITHER = (True, True), (True, False), (False, True), (False, False)


def answers(file, question: str, text: str, user: str = "ann", **principals) -> tuple[bool, bool]:
    """Return the answers of Ranger 0.7 and of Ranger 2. question: a privilege, or `sees`."""
    subject = Subject(user, **{name: frozenset(names) for name, names in principals.items()})
    enforcers = (Enforcer(file, rules, NOON) for rules in (RANGER_0_7, RANGER_2))
    address = parse_address(text)
    old, new = (
        e.is_visible(subject, address)
        if question == "sees"
        else e.enforce(subject, address, Privilege[question])
        for e in enforcers
    )
    return old, new


@pytest.mark.parametrize(
    ("levels", "question", "entity", "expected"),
    [
        # RANGER-2415: an excluded `*` counts where the entity has no name, so that the policy matches neither it nor
        # its containers
        ({"namespace": "sales", "artifact": NOTHING_BELOW}, "READ", "namespace:sales", OLD),
        ({"namespace": "sales", "artifact": NOTHING_BELOW}, "sees", "namespace:sales", OLD),
        ({"namespace": "sales", "artifact": NOTHING_BELOW}, "sees", "instance:cdap", OLD),
        ({"namespace": "sales", "artifact": NOTHING_BELOW}, "READ", "artifact:sales.etl", NEITHER),
        ({"namespace": "sales", "artifact": NOTHING_BELOW}, "sees", "dataset:sales.orders", NEITHER),
        ({"namespace": NOTHING_BELOW}, "READ", "instance:cdap", OLD),
        # an excluded name that is not `*` is a name like others
        (
            {"namespace": "sales", "dataset": {"values": ["pay"], "isExcludes": True}},
            "READ",
            "namespace:sales",
            NEITHER,
        ),
        (
            {"namespace": "sales", "dataset": {"values": ["pay"], "isExcludes": True}},
            "sees",
            "namespace:sales",
            BOTH,
        ),
        (
            {"namespace": "sales", "dataset": {"values": ["pay"], "isExcludes": True}},
            "READ",
            "dataset:sales.orders",
            BOTH,
        ),
        (
            {"namespace": "sales", "dataset": {"values": ["pay"], "isExcludes": True}},
            "sees",
            "dataset:sales.pay",
            NEITHER,
        ),
        # `*` matches the absence of a name, `?*` does not
        ({"namespace": "sales", "dataset": "*"}, "READ", "namespace:sales", BOTH),
        ({"namespace": "sales", "dataset": "**"}, "READ", "namespace:sales", BOTH),
        ({"namespace": "sales", "dataset": {"values": []}}, "READ", "namespace:sales", BOTH),
        ({"namespace": "sales", "dataset": "orders *"}, "READ", "namespace:sales", BOTH),
        ({"namespace": "sales", "dataset": "?*"}, "READ", "namespace:sales", NEITHER),
        ({"namespace": "sales", "dataset": "?*"}, "sees", "namespace:sales", BOTH),
        (
            {"namespace": "sales", "application": "*", "program": "workflow.daily"},
            "READ",
            "application:sales.app",
            NEITHER,
        ),
        (
            {"namespace": "sales", "application": "*", "program": "workflow.daily"},
            "sees",
            "namespace:sales",
            BOTH,
        ),
        # the policy of a container decides about its content up to 1.x (`RangerDefaultPolicyEvaluator`, ANCESTOR)
        ({"namespace": "sales"}, "READ", "namespace:sales", BOTH),
        ({"namespace": "sales"}, "READ", "dataset:sales.orders", OLD),
        ({"namespace": "sales"}, "sees", "program:sales.app.workflow.daily", OLD),
        ({"namespace": "sales"}, "READ", "kerberosprincipal:etl/host@REALM", NEITHER),
        ({"namespace": "sales"}, "sees", "instance:cdap", BOTH),
        ({}, "READ", "kerberosprincipal:etl/host@REALM", OLD),
        # where all levels are `*`, 0.7 does not compare names, and so no exclusion either
        ({"instance": "*", "namespace": NOTHING_BELOW}, "READ", "namespace:sales", OLD),
        ({"instance": "*", "namespace": "*"}, "READ", "namespace:sales", BOTH),
        # names: case-sensitive, several of them, wildcards anywhere, everything else literal
        ({"namespace": "sales", "dataset": "Orders"}, "READ", "dataset:sales.orders", NEITHER),
        ({"namespace": "sales finance", "dataset": "orders"}, "READ", "dataset:finance.orders", BOTH),
        ({"namespace": "sales", "dataset": "o?d*s.by.d?y"}, "READ", "dataset:sales.orders.by.day", BOTH),
        ({"namespace": "sales", "dataset": "order?"}, "READ", "dataset:sales.order", NEITHER),
        ({"namespace": "sales", "dataset": "[o]rders"}, "READ", "dataset:sales.orders", NEITHER),
        ({"namespace": "sales", "dataset": "a.b"}, "READ", "dataset:sales.acb", NEITHER),
        # another instance, and a policy of another branch
        ({"instance": "test", "namespace": "sales"}, "sees", "namespace:sales", NEITHER),
        ({"principal": "etl/*"}, "READ", "kerberosprincipal:etl/host@REALM", BOTH),
        ({"namespace": "sales", "secure_key": "aws"}, "READ", "securekey:sales.aws", BOTH),
        ({"namespace": "sales", "stream": "aws"}, "READ", "securekey:sales.aws", NEITHER),
    ],
)
def test_levels_match_entities(levels, question, entity, expected):
    """RangerDefaultPolicyResourceMatcher, RangerAbstractResourceMatcher and RangerDefaultResourceMatcher."""
    assert answers(policy_file(policy("ann", **levels)), question, entity) == expected


SALES = {"namespace": "sales", "dataset": "orders"}


@pytest.mark.parametrize(
    ("items", "principals", "expected"),
    [
        ([item("ann")], {}, BOTH),
        ([item("Ann")], {}, NEITHER),
        ([item("ann", accesses="READ")], {}, BOTH),
        ([item("ann", accesses="write execute admin")], {}, NEITHER),
        ([item("ann", accesses="write"), item("ann")], {}, BOTH),
        ([{"users": ["ann"], "accesses": [{"type": "read", "isAllowed": False}]}], {}, NEITHER),
        ([{"users": ["ann"], "accesses": [{"type": "read"}]}], {}, BOTH),
        ([item("ann", accesses="", delegateAdmin=True)], {}, NEITHER),
        ([item(groups=["analysts"])], {"groups": ["analysts"]}, BOTH),
        ([item(groups=["analysts"])], {}, NEITHER),
        ([item(groups=["public"])], {}, BOTH),
        ([item(roles=["stewards"])], {"roles": ["stewards"]}, NEW),
        ([item("{USER}")], {}, NEW),
        ([item("{OWNER}")], {}, NEITHER),
    ],
)
def test_items_are_about_users_and_privileges(items, principals, expected):
    """RangerDefaultPolicyItemEvaluator."""
    file = policy_file(policy(policyItems=items, **SALES))
    assert answers(file, "READ", "dataset:sales.orders", **principals) == expected


ENABLED = {"serviceDef": {"name": "cdap", "options": {"enableDenyAndExceptionsInPolicies": "true"}}}
DISABLED = {"serviceDef": {"name": "cdap", "options": {"enableDenyAndExceptionsInPolicies": "false"}}}


@pytest.mark.parametrize(("definition", "expected"), [({}, OLD), (ENABLED, NEITHER), (DISABLED, BOTH)])
@pytest.mark.parametrize("where", ["denyPolicyItems", "allowExceptions"])
def test_only_ranger_2_applies_denials_unless_the_service_definition_says_so(definition, expected, where):
    """ServiceDefUtil.getOption_enableDenyAndExceptionsInPolicies."""
    file = policy_file(policy("ann", **SALES, **{where: [item("ann")]}), **definition)
    assert answers(file, "READ", "dataset:sales.orders") == expected


@pytest.mark.parametrize(
    ("policies", "question", "entity", "expected"),
    [
        # a denial takes precedence over what another policy allows, whatever their order
        ([policy(denyPolicyItems=[item("ann")], namespace="sales", dataset="o*"), policy("ann", **SALES)], "READ",
         "dataset:sales.orders", False),
        # an exception of a denial
        ([policy("ann", denyPolicyItems=[item(groups=["public"])], denyExceptions=[item("ann")], **SALES)], "READ",
         "dataset:sales.orders", True),
        # a denial of another privilege
        ([policy("ann", denyPolicyItems=[item("ann", accesses="write")], **SALES)], "READ", "dataset:sales.orders", True),
        # what is denied on the content does not hide the container
        ([policy("ann", namespace="sales", dataset="o*"), policy(denyPolicyItems=[item("ann")], **SALES)], "sees",
         "namespace:sales", True),
        ([policy("ann", isDenyAllElse=True, **SALES), policy("ann", "write", **SALES)], "WRITE", "dataset:sales.orders", False),
        ([policy("ann", isDenyAllElse=True, **SALES)], "READ", "dataset:sales.orders", True),
        # an override decides before all others
        ([policy("ann", policyPriority=1, **SALES), policy(denyPolicyItems=[item("ann")], **SALES)], "READ",
         "dataset:sales.orders", True),
        ([policy(policyPriority=1, denyPolicyItems=[item("ann")], **SALES), policy("ann", **SALES)], "READ",
         "dataset:sales.orders", False),
    ],
)  # fmt: skip
def test_ranger_2_combines_policies(policies, question, entity, expected):
    """RangerDefaultPolicyEvaluator.evaluatePolicyItems, RangerPolicyEngineImpl."""
    assert answers(policy_file(*policies), question, entity)[1] == expected


def test_with_denials_0_7_asks_for_visibility_once_and_ranger_2_for_each_privilege():
    """RangerDefaultPolicyItemEvaluator.isMatch: a denial of any privilege is a denial of ANY_ACCESS."""
    file = policy_file(policy("ann", denyPolicyItems=[item("ann", accesses="write")], **SALES), **ENABLED)
    assert answers(file, "sees", "dataset:sales.orders") == NEW


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"startTime": "2026/06/01 11:00:00", "endTime": "2026/06/01 13:00:00"}, BOTH),
        ({"startTime": "2026/06/01 13:00:00"}, OLD),
        ({"endTime": "2026/06/01 11:00:00"}, OLD),
        # noon in GMT is the morning in New York
        ({"endTime": "2026/06/01 11:00:00", "timeZone": "America/New_York"}, BOTH),
        ({"startTime": "2026/06/01 12:30:00", "timeZone": "Europe/Berlin"}, BOTH),
    ],
)
def test_only_ranger_2_applies_schedules(schedule, expected):
    """RangerValidityScheduleEvaluator.isApplicable."""
    file = policy_file(policy("ann", validitySchedules=[schedule], **SALES))
    assert answers(file, "READ", "dataset:sales.orders") == expected


def test_a_disabled_policy_decides_nothing():
    """RangerPolicyRepository.skipBuildingPolicyEvaluator."""
    file = policy_file(
        policy("ann", isEnabled=False, **SALES), policy("ann", namespace="sales", stream="clicks")
    )
    assert answers(file, "READ", "dataset:sales.orders") == NEITHER
    assert file.notes == () and len(file.policies) == 1
