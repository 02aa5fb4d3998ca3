"""Explanations name the policies of Ranger that may change the answer, and no others."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from random import Random

import pytest
from django.core.management import call_command

from authzconsole.connections.ranger.evaluation import Enforcer, Subject
from authzconsole.connections.ranger.matching import RANGER_0_7
from authzconsole.connections.ranger.policies import Policy
from authzconsole.connections.ranger_grants import fault_of_policy
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.change_set import AddGroup, AddUser, ChangeSet, Include, Join
from grants.changes import apply
from grants.evaluation.engine import answer_questions
from grants.history import as_of
from grants.models import JournalHead, Remark
from grants.policies.explain import REDACTED_REMARK, redact_all
from grants.policies.question import Question
from tests.connections.ranger.policy_files import document, item, policy, policy_file
from tests.connections.ranger.test_grants import ENTITIES, random_policy
from tests.support.authors import COMMAND

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SUBJECTS = {
    "ann": Subject("ann", frozenset({"staff"})),
    "bob": Subject("bob", frozenset({"staff", "temps"})),
    "eve": Subject("eve"),
}
DIFFERS = "so the platform may answer differently."
RECURRING = {"validitySchedules": [{"startTime": "2026/03/01 00:00:00", "recurrences": [{}]}]}


@pytest.fixture(autouse=True)
def people(db):
    apply(
        ChangeSet.of(
            *map(AddUser, SUBJECTS),
            AddGroup("staff"),
            AddGroup("temps"),
            *(Join(name, group) for name, subject in SUBJECTS.items() for group in sorted(subject.groups)),
        ),
        author=COMMAND,
    )


@pytest.fixture
def imported(tmp_path):
    """Return a function that imports policies."""

    def import_policies(*policies: dict, **members) -> None:
        path = tmp_path / "policies.json"
        path.write_bytes(document(*policies, **members))
        call_command("import_ranger", str(path), stdout=io.StringIO(), stderr=io.StringIO())

    return import_policies


def question(
    name: str, operation: str, address: str, *, type_: str = "user", explain: bool = True
) -> Question:
    return Question(type_, name, operation, parse_address(address), "final", explain=explain)


def remarks(*asked: str, **members) -> list[str]:
    """Return the remarks about one question, and check that it is decided as without an explanation."""
    (answer,) = answer_questions([question(*asked, **members)])
    (plain,) = answer_questions([question(*asked, **members, explain=False)])
    assert answer["decision"] is plain["decision"]
    return answer["context"].get("remarks", [])


def odd_policy(random: Random, number: int) -> dict:
    """Return a policy that may have what grants cannot express."""

    def some_item() -> dict:
        accesses = " ".join(random.sample(["read", "write", "execute", "admin"], random.randint(1, 3)))
        conditions = [{"type": "ip"}] if random.random() < 0.1 else []
        users, groups = random.choice(
            [
                (["ann"], []),
                (["bob"], ["staff"]),
                ([], ["staff"]),
                ([], ["temps"]),
                ([], ["public"]),
                (["zoe"], ["x"]),
            ]
        )
        return item(*users, groups=groups, accesses=accesses, conditions=conditions)

    result = random_policy(random, number) | {
        "policyItems": [some_item() for _ in range(random.randint(0, 2))]
    }
    for member in ("denyPolicyItems", "denyExceptions", "allowExceptions"):
        if random.random() < 0.4:
            result[member] = [some_item()]
    if random.random() < 0.2:
        names = random.choice(["a", "a b", "?b"])
        last = list(result["resources"])[-1]
        if last not in ("instance", "program"):
            result["resources"][last] = {"values": names.split(), "isExcludes": True}
    return result | (RECURRING if random.random() < 0.1 else {})


def plain(one: Policy) -> Policy:
    """Return what becomes grants of a policy."""
    allow = () if fault_of_policy(one) else one.allow
    named = [replace(item, groups=item.groups - {"public"}) for item in allow]
    return replace(one, allow=tuple(named), allow_exceptions=(), deny=(), deny_exceptions=())


def touches(one: Policy, subject: Subject, privilege: Privilege, permitted: bool) -> bool:
    """Return whether a policy that matches decides beyond its grants about a privilege, read item by item."""

    def is_about(items, *, certainly: bool = False) -> bool:
        return any(
            privilege in item.accesses
            and (subject.user in item.users or not item.groups.isdisjoint({"public", *subject.groups}))
            and not (certainly and item.is_conditional)
            for item in items
        )

    if not permitted:
        beyond = is_about(one.allow) and not is_about(plain(one).allow)
        return beyond and not is_about(one.allow_exceptions, certainly=True)
    taken_over = () if fault_of_policy(one) else one.allow
    return (
        (is_about(one.deny) and not is_about(one.deny_exceptions, certainly=True))
        or (is_about(taken_over) and is_about(one.allow_exceptions))
        or is_about([item for item in taken_over if item.is_conditional])
    )


@pytest.mark.parametrize("seed", range(25))
def test_exactly_the_policies_that_may_change_an_answer_are_named(imported, seed):
    random = Random(seed)
    policies = [odd_policy(random, number) for number in range(random.randint(1, 4))]
    imported(*policies)
    file = replace(policy_file(*policies), enables_deny=True)
    by_policy = {
        one.name: Enforcer(
            replace(file, policies=tuple(other if other is one else plain(other) for other in file.policies)),
            RANGER_0_7,
            NOON,
        )
        for one in file.policies
    }
    alone = {one.name: Enforcer(replace(file, policies=(one,)), RANGER_0_7, NOON) for one in file.policies}
    asked = list(product(SUBJECTS, ENTITIES, Privilege))
    answers = answer_questions(
        [question(name, privilege, str(address)) for name, address, privilege in asked]
    )
    differences = 0
    for (name, address, privilege), answer in zip(asked, answers, strict=True):
        texts, permitted = answer["context"].get("remarks", []), answer["decision"]
        for one in file.policies:
            named = any(text.startswith(f"Ranger policy `{one.name}` ") for text in texts)
            differs = by_policy[one.name].enforce(SUBJECTS[name], address, privilege) != permitted
            differences += differs
            assert named or not differs, (name, str(address), privilege, one)
            matches = alone[one.name].matches(address)
            can_touch = any(how in RANGER_0_7.held for _, how in matches)
            can_touch = can_touch and touches(one, SUBJECTS[name], privilege, permitted)
            assert named == can_touch, f"{name} {address} {privilege} {permitted} {texts} {one}"
    for name, address in product(SUBJECTS, ENTITIES):
        (answer,) = (
            answer_questions([question(name, "get", str(address))]) if address.kind == "namespace" else [{}]
        )
        enforcer = Enforcer(file, RANGER_0_7, NOON)
        if answer.get("decision") and not enforcer.is_visible(SUBJECTS[name], address):
            assert answer["context"].get("remarks"), (name, str(address))


FINANCE = {"namespace": "finance", "dataset": "?*"}
LEDGER = "dataset:finance.ledger"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            {"denyPolicyItems": [item(groups=["temps"], accesses="write")]},
            "denies WRITE on dataset:finance.* to group:temps; the console does not evaluate deny items",
        ),
        (
            {"allowExceptions": [item("bob", accesses="write")]},
            "does not always give READ and WRITE on dataset:finance.* to group:staff; the console does not evaluate exceptions",
        ),
        (
            {"conditions": [{"type": "ip"}]},
            "does not always give READ and WRITE on dataset:finance.* to group:staff; the console does not evaluate conditions",
        ),
        (
            {"isDenyAllElse": True, "policyItems": [item("eve", accesses="write")]},
            "denies READ, WRITE, EXECUTE and ADMIN on dataset:finance.* to everybody; the console does not evaluate the denial "
            "of all other access",
        ),
        (
            {"zoneName": "eu", "policyItems": []},
            "does not always give READ, WRITE, EXECUTE and ADMIN on dataset:finance.* to everybody; the console does not "
            "evaluate security zones",
        ),
        (
            {
                "policyType": 1,
                "policyItems": [],
                "dataMaskPolicyItems": [item(groups=["staff"], accesses="write")],
            },
            "gives only masked WRITE on dataset:finance.* to group:staff; the console does not evaluate masks",
        ),
    ],
)
def test_a_permission_says_how_the_platform_may_permit_less(imported, members, text):
    base = policy(name="base", **FINANCE, policyItems=[item(groups=["staff"], accesses="read write")])
    imported(base, {**policy(name="odd", **FINANCE), "policyItems": base["policyItems"], **members})
    assert remarks("bob", "WRITE", LEDGER) == [f"Ranger policy `odd` {text}, {DIFFERS}"]
    # nothing of it is about her, another privilege on another entity, or a denial
    assert not remarks("eve", "WRITE", LEDGER)
    assert not remarks("bob", "WRITE", "dataset:lab.d1") and not remarks(
        "bob", "EXECUTE", "namespace:finance"
    )


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (RECURRING, "to group:staff; the console leaves it out because the policy has a recurring schedule"),
        (
            {"dataset": {"values": ["pay"], "isExcludes": True}},
            "to group:staff; the console leaves it out because the policy excludes names",
        ),
        (
            {"policyItems": [item(groups=["public"])]},
            "to everybody; the console does not evaluate items for everybody",
        ),
        (
            {"policyItems": [item("{USER}")]},
            "to everybody; the console does not evaluate items for everybody",
        ),
        ({"zoneName": "eu"}, "to group:staff; the console does not evaluate policies of security zones"),
        (
            {"namespace": "other", "additionalResources": [policy(**FINANCE)["resources"]]},
            "to group:staff; the console does not evaluate additional resources",
        ),
    ],
)
def test_a_denial_says_how_the_platform_may_permit_more(imported, members, text):
    parts = {**FINANCE, "policyItems": [item(groups=["staff"])], **members}
    imported(policy(name="odd", **parts))
    assert remarks("bob", "READ", LEDGER) == [
        f"Ranger policy `odd` gives READ on dataset:finance.* {text}, {DIFFERS}"
    ]
    assert remarks("staff", "READ", LEDGER, type_="group")
    assert not remarks("bob", "WRITE", LEDGER) and not remarks("bob", "READ", "dataset:lab.d1")
    # the namespace would be visible, too
    assert remarks("bob", "get", "namespace:finance") and not remarks("bob", "get", "namespace:lab")


def test_a_permission_on_a_name_with_dots_names_the_policy_that_ranger_compares_level_by_level(imported):
    imported(policy("bob", name="wide", namespace="fin*", dataset="led*"))
    assert remarks("bob", "READ", "dataset:finance.old.ledger") == [
        "Ranger policy `wide` does not always give READ on dataset:fin*.*.led* to user:bob; Ranger compares names with dots "
        f"level by level, {DIFFERS}"
    ]
    assert not remarks("bob", "READ", LEDGER) and not remarks("eve", "READ", "dataset:finance.old.ledger")


def test_a_policy_on_another_instance_or_disabled_denials_change_nothing(imported):
    grants = policy("bob", "read", name="base", **FINANCE)
    denial = {"policyItems": [], "denyPolicyItems": [item("bob")]}
    imported(grants, policy(name="odd", instance="other", **FINANCE, **denial))
    assert not Remark.objects.exists()
    options = {"options": {"enableDenyAndExceptionsInPolicies": "false"}}
    imported(grants, policy(name="odd", **FINANCE, **denial), serviceDef={"name": "cdap", **options})
    assert not Remark.objects.exists()


def test_policies_on_tags_and_in_zones_of_a_download_are_named(imported):
    tags = {"name": "PII", "denyPolicyItems": [item("bob", accesses="cdap:read hive:select")]}
    zone = policy("eve", "read", name="zone", **FINANCE)
    imported(
        policy("bob", "read", name="base", **FINANCE),
        tagPolicies={"policies": [tags]},
        securityZones={"eu": {"policies": [zone]}},
    )
    tag, of_zone = remarks("bob", "READ", LEDGER)
    assert tag == (
        "Ranger policy `PII` denies READ on what has its tags to user:bob; the console does not evaluate deny items, "
        + DIFFERS
    )
    assert of_zone.startswith("Ranger policy `zone` does not always give")
    (given,) = remarks("eve", "READ", LEDGER)
    assert given.startswith("Ranger policy `zone` gives READ on dataset:finance.* to user:eve")


def test_a_principal_belongs_to_groups_and_roles(imported):
    apply(ChangeSet.of(AddGroup("role:clerks"), Include("temps", "role:clerks")), author=COMMAND)
    grants = policy(name="base", **FINANCE, policyItems=[item("bob", "ann", groups=["temps"])])
    imported(grants, policy(name="odd", **FINANCE, denyPolicyItems=[item(roles=["clerks"])]))
    assert remarks("bob", "READ", LEDGER) == remarks("temps", "READ", LEDGER, type_="group") != []
    assert not remarks("ann", "READ", LEDGER)


def test_one_who_may_not_see_everything_learns_no_name(imported):
    """Neither the policy, nor its pattern, nor its principal; and nothing about what is denied or only counted."""
    denial = policy("bob", name="secret merger", **FINANCE, denyPolicyItems=[item(groups=["public"])])
    imported(
        denial, policy(name="open", namespace="hidden", dataset="x", policyItems=[item(groups=["public"])])
    )
    asked = [
        question("bob", "READ", LEDGER),
        question("bob", "READ", "dataset:hidden.x"),
        question("bob", "get", "namespace:hidden"),
    ]
    full = [answer["context"].get("remarks", []) for answer in answer_questions(asked)]
    assert all(full) and "secret merger" in full[0][0]
    redacted = [answer["context"].get("remarks", []) for answer in answer_questions(asked, redact=redact_all)]
    assert redacted == [[REDACTED_REMARK], [], []]


def test_an_import_replaces_the_remarks_of_its_service_only(imported):
    grants = policy("bob", name="base", **FINANCE)
    for service in ("one", "two"):
        imported(grants, policy(name=service, **FINANCE, denyPolicyItems=[item("bob")]), serviceName=service)
    assert len(remarks("bob", "READ", LEDGER)) == 2
    imported(grants, serviceName="one")
    (rest,) = remarks("bob", "READ", LEDGER)
    assert "`two`" in rest
    # an import that fails or is only shown changes nothing
    with pytest.raises(Exception, match="not a path"):
        imported(policy(namespace="a", program="b"), serviceName="two")
    assert remarks("bob", "READ", LEDGER) == [rest]


def test_names_that_the_console_cannot_store_are_shortened_or_left_out(imported):
    """Of the service and the policy; no principal of the console can have such a name."""
    denied = [item("bob", "x" * 300, groups=["a\0b"])]
    imported(
        policy("bob", name="base", **FINANCE),
        policy(name="odd\0" + "y" * 300, **FINANCE, denyPolicyItems=denied),
        serviceName="s\0" + "z" * 400,
    )
    (remark,) = remarks("bob", "READ", LEDGER)
    assert remark.startswith("Ranger policy `odd\N{REPLACEMENT CHARACTER}yyy") and "…`" in remark
    assert Remark.objects.count() == 1


def test_the_past_has_no_remarks(imported):
    imported(policy("bob", name="odd", **FINANCE, denyPolicyItems=[item("bob")]))
    with as_of(JournalHead.objects.get().revision):
        assert not remarks("bob", "READ", LEDGER)
    assert remarks("bob", "READ", LEDGER)


def test_only_explanations_read_remarks_with_one_query_and_list_the_first(
    imported, django_assert_num_queries
):
    denials = [
        policy(name=f"p{number:02}", **FINANCE, denyPolicyItems=[item("bob", groups=["staff"])])
        for number in range(30)
    ]
    imported(policy("bob", name="base", **FINANCE), *denials)
    plain_question = question("bob", "READ", LEDGER, explain=False)
    list(answer_questions([plain_question]))
    with django_assert_num_queries(1) as plain_queries:
        list(answer_questions([plain_question] * 3))
    assert "grants_remark" not in plain_queries[0]["sql"]
    asked = [question(name, "READ", LEDGER) for name in SUBJECTS]
    # the facts, the states, the grants that are not in force of the two who are denied, and the remarks
    with django_assert_num_queries(4) as queries:
        answers = list(answer_questions(asked))
    assert sum("grants_remark" in query["sql"] for query in queries) == 1
    texts = answers[1]["context"]["remarks"]
    assert len(texts) == 21 and texts[-1] == "The platform has 10 more policies that may change this answer."
    assert "remarks" not in answers[0]["context"]
