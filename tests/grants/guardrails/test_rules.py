"""Guardrails are parsed strictly, and their text is canonical."""

import pytest

from grants.change_set import SetGuardrail, as_text, change_from_text
from grants.errors import GuardrailError
from grants.guardrails.rules import rule_from_members, rule_from_text

FORMS = [
    {
        "forbid": {
            "members_of": "group:contractors",
            "privileges": ["WRITE", "ADMIN"],
            "within": "namespace:finance",
        },
        "level": "block",
        "reason": "policy 4.2",
    },
    {
        "forbid_both": [
            {"privilege": "WRITE", "within": "dataset:finance.payments"},
            {"privilege": "ADMIN", "within": "application:finance.approval"},
        ],
        "level": "warn",
    },
    {"require": {"privilege": "ADMIN", "on": "kind:namespace", "at_least": 2}, "level": "block"},
    {
        "expect": {
            "subject": {"type": "user", "id": "sofia.lindqvist"},
            "action": {"name": "read"},
            "resource": {"type": "dataset", "id": "sales.orders"},
        },
        "decision": True,
        "level": "block",
    },
]


@pytest.mark.parametrize("members", FORMS)
def test_a_rule_is_written_as_it_was_read_and_blocks_by_default(members):
    rule = rule_from_members(members)
    assert rule.members == members
    assert rule_from_text(rule.text) == rule
    assert rule_from_members({name: value for name, value in members.items() if name != "level"}).level == (
        "block"
    )
    change = SetGuardrail("x", rule.text)
    assert change_from_text(as_text(change)) == change


FORBID, REQUIRE = {"privileges": ["READ"], "within": "namespace:a"}, {"privilege": "ADMIN", "at_least": 1}


@pytest.mark.parametrize(
    ("members", "field", "reason"),
    [
        ({}, "", "exactly one of `forbid`, `forbid_both`, `require`, `expect`"),
        ({"forbid": FORBID, "require": REQUIRE}, "require", "`forbid` and `require`"),
        ({"forbid": FORBID, "level": "stop"}, "level", "`stop` is not one of block, warn"),
        ({"forbid": FORBID, "until": "x"}, "until", "`until` is not a member"),
        ({"forbid": FORBID, "decision": True}, "decision", "not a member"),
        ({"forbid": FORBID, "reason": 3}, "reason", "must be text"),
        ({"forbid": []}, "forbid", "must be an object"),
        ({"forbid": FORBID | {"privileges": []}}, "forbid.privileges", "at least one of READ"),
        ({"forbid": FORBID | {"privileges": ["read"]}}, "forbid.privileges", "`read` is not a privilege"),
        ({"forbid": FORBID | {"within": "dataset:a"}}, "forbid.within", "dataset"),
        ({"forbid": FORBID | {"within": "instance:other"}}, "forbid.within", "not the instance"),
        ({"forbid": FORBID | {"members_of": "user:bob"}}, "forbid.members_of", "name a group"),
        ({"forbid_both": [{"privilege": "READ", "within": "namespace:a"}]}, "forbid_both", "two objects"),
        (
            {"forbid_both": [{"privilege": "READ", "within": "namespace:a"}] * 2},
            "forbid_both[1]",
            "the same",
        ),
        ({"require": REQUIRE | {"on": "namespace:a"}}, "require.on", "not a kind"),
        ({"require": REQUIRE | {"on": "kind:namespace", "at_least": True}}, "require.at_least", "1 to 1,000"),
        ({"require": REQUIRE | {"on": "kind:namespace", "at_least": 0}}, "require.at_least", "1 to 1,000"),
        ({"expect": {"subject": {"type": "user", "id": "a"}}}, "expect", "`action` is missing"),
        (
            FORMS[3] | {"expect": FORMS[3]["expect"] | {"action": {"name": "fly"}}},
            "expect",
            "`fly` is not an operation of a dataset",
        ),
        (FORMS[3] | {"decision": "yes"}, "decision", "true or false"),
        (FORMS[3] | {"expect": FORMS[3]["expect"] | {"context": {}}}, "expect.context", "not a member"),
    ],
)
def test_a_bad_rule_is_refused_with_the_member_at_fault(members, field, reason):
    with pytest.raises(GuardrailError) as error:
        rule_from_members(members)
    assert error.value.field == field and reason in str(error.value)
