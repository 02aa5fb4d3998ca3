"""Policy files are read strictly: a bad file is refused with its place, and what is not evaluated is noted."""

import json

import pytest

from authzconsole.connections.ranger.policies import PolicyFileError, read_policies
from tests.connections.ranger.policy_files import document, item, policy, policy_file

SALES = {"namespace": "sales", "dataset": "orders"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b" \n", "p.json is empty"),
        (b"<!DOCTYPE html><html>", "p.json is HTML or XML, not JSON: Ranger Admin has probably returned its sign-in page"),
        (b'{"policies": [', "p.json is not JSON: Expecting value at line 1, column 15"),
        (b"[]", "p.json has no list `policies`"),
        (b'{"policies": {}}', "p.json has no list `policies`"),
        (b'{"policies": [1]}', "p.json: policies[0] is not an object"),
        (b'{"policies": [], "policies": []}', "`policies` appears more than once"),
        (document(serviceDef={"name": "hive"}), "p.json: serviceDef is of the service type `hive`, not `cdap`"),
        (document(policy("ann", serviceType="hive", **SALES)), "p.json: policies[0] (`policy of ann`) is of the service type"),
        (document(policyDeltas=[{}]), "policyDeltas has changes instead of all policies"),
        (document(policy(name="a", database="x", resources={"database": {"values": ["x"]}})),
         "policies[0] (`a`).resources has the level `database`"),
        (document(policy(name="a", resources={})), "(`a`).resources has the levels none, which are not a path"),
        (document(policy(name="a", resources={"namespace": {"values": ["x"]}})), "such as instance > namespace"),
        (document(policy(name="a", dataset="x")), "such as instance > namespace > dataset: correct the policy"),
        (document(policy(name="a", namespace="x", dataset="x", stream="x")), "are not a path from the instance down"),
        (document(policy(name="a", namespace={"values": "x"})), "(`a`).resources.namespace.values is not a list"),
        (document(policy(name="a", namespace={"values": [1]})), "(`a`).resources.namespace.values is not a list of texts"),
        (document(policy(name="a", isEnabled="yes")), "(`a`).isEnabled is not true or false"),
        (document(policy(name="a", policyPriority=True)), "(`a`).policyPriority is not a whole number"),
        (document(policy(name="a", policyItems=[{"users": "ann"}])), "(`a`).policyItems[0].users is not a list"),
        (document(policy(name="a", policyItems=["ann"])), "(`a`).policyItems is not a list of objects"),
        (document(policy(name="a", number=3), policy(name="b", number=3)),
         "policies[1] (`b`) has the id 3 of a policy before it"),
        (document(policy(name="a", service="one"), policy(name="b", service="two")), "of 2 services (one, two)"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_the_place_and_the_reason(raw, message):
    with pytest.raises(PolicyFileError) as caught:
        read_policies(raw, file_name="p.json")
    assert message in str(caught.value) and "p.json" in str(caught.value)


@pytest.mark.parametrize(
    ("members", "reasons"),
    [
        ({}, []),
        ({"surprise": 1}, ["the policy has the unknown field `surprise`"]),
        (
            {"conditions": [{"type": "ip"}]},
            ["the policy has conditions; it is evaluated as if they were met"],
        ),
        ({"zoneName": "eu"}, ["the policy belongs to the security zone `eu`; it is not evaluated"]),
        ({"policyType": 1, "resources": {"database": {}}}, ["the policy masks data; it is not evaluated"]),
        ({"policyType": 2}, ["the policy filters rows; it is not evaluated"]),
        ({"dataMaskPolicyItems": [{}]}, ["the policy has `dataMaskPolicyItems`, which are not evaluated"]),
        (
            {"additionalResources": [{}]},
            ["the policy has `additionalResources`; only `resources` are evaluated"],
        ),
        ({"policyItems": [item("ann", extra=1)]}, ["policyItems[0] has the unknown field `extra`"]),
        (
            {"policyItems": [item("ann", accesses="read fly")]},
            ["policyItems[0] has the unknown access type `fly`"],
        ),
        (
            {"policyItems": [item("ann", conditions=[{"type": "ip"}])]},
            ["policyItems[0] has conditions; it is evaluated as if they were met"],
        ),
        (
            {"denyPolicyItems": [item("bob")]},
            ["the policy has deny items or exceptions, which Ranger 0.7 ignores and Ranger 2 applies"],
        ),
        (
            {"policyItems": [item(roles=["r"])]},
            ["the policy has roles, which Ranger 0.7 ignores and Ranger 2 applies"],
        ),
        (
            {"dataset": {"values": ["a"], "isRecursive": True, "more": 1}},
            [
                "`dataset` has the unknown field `more`",
                "`dataset` is recursive, which has no effect in the service definition of CDAP",
            ],
        ),
        ({"dataset": "{USER}_data"}, ["`dataset` has a variable in braces, which is not replaced"]),
        (
            {"validitySchedules": [{"startTime": "soon", "recurrences": [{}]}]},
            [
                "the policy has a recurring schedule; its recurrences are not evaluated",
                "the policy has the startTime `soon` in `GMT`, which is not a time; it is no limit",
                "the policy has a validity schedule, which Ranger 0.7 ignores and Ranger 2 applies",
            ],
        ),
    ],
)
def test_what_a_policy_has_and_the_evaluation_does_not_support_is_noted(members, reasons):
    file = policy_file(policy("ann", name="p", number=7, **{**SALES, **members}))
    assert [(note.policy, note.id, note.reason) for note in file.notes] == [
        ("p", 7, reason) for reason in reasons
    ]


def test_the_parts_of_a_download_that_are_not_evaluated_are_noted():
    file = policy_file(
        policy("ann", **SALES),
        serviceName="cdapdev",
        tagPolicies={"policies": [{"name": "PII", "id": 9}]},
        securityZones={"eu": {}},
        surprise=True,
    )
    assert [(note.policy, note.id, note.reason) for note in file.notes] == [
        ("", None, "the file has the unknown field `surprise`"),
        ("PII", 9, "the policy applies to tags; it is not evaluated"),
        ("", None, "the policies of the security zone `eu` are not evaluated"),
    ]


def test_null_is_what_ranger_writes_for_a_member_that_is_not_set():
    body = json.loads(document(policy("ann", **SALES)))
    body["policies"][0] |= {
        "zoneName": None,
        "conditions": None,
        "serviceType": None,
        "denyPolicyItems": None,
    }
    file = read_policies(json.dumps(body).encode(), file_name="p.json")
    assert len(file.policies) == 1 and file.notes == ()
