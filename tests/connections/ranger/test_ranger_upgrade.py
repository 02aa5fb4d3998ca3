"""`manage.py ranger_upgrade` lists the answers that an upgrade changes, and what it could not answer."""

import io
import json
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command

from authzconsole.connections.ranger.evaluation import Enforcer
from authzconsole.connections.ranger.upgrade import changed_answers
from entities.address import parse_address
from tests.connections.ranger.policy_files import NOTHING_BELOW, document, item, policy, policy_file

CONSOLE = [
    {"type": "entity", "id": "namespace:sales"},
    {"type": "entity", "id": "namespace:old", "state": "deleted"},
    {"type": "entity", "id": "namespace:soon", "state": "planned"},
    {"type": "user", "name": "ann"},
    {"type": "user", "name": "bob"},
    {"type": "user", "name": "gone", "active": False},
    {"type": "group", "name": "analysts", "members": ["ann", "gone"]},
]
# reads one namespace, and nothing in it
READER = {"namespace": "sales", "artifact": NOTHING_BELOW}


@pytest.fixture
def upgrade(tmp_path, db):
    """Return a function that runs the command and returns its answers and the reasons of its notes."""

    def run(*policies: dict, **members) -> tuple[list[tuple], list[str]]:
        path = tmp_path / "policies.json"
        path.write_bytes(document(*policies, **members))
        output, errors = io.StringIO(), io.StringIO()
        call_command("ranger_upgrade", str(path), stdout=output, stderr=errors)
        answers = [tuple(json.loads(line).values()) for line in output.getvalue().splitlines()]
        notes = [json.loads(line) for line in errors.getvalue().splitlines()]
        assert all(list(note) == ["policy", "id", "reason"] for note in notes)
        return answers, [note["reason"] for note in notes]

    return run


@pytest.fixture
def console(tmp_path, db):
    path = tmp_path / "tenant.jsonl"
    path.write_text("\n".join(map(json.dumps, CONSOLE)))
    call_command("import_tenant", str(path), stdout=io.StringIO())


def test_with_an_empty_console_the_users_and_entities_of_the_file_are_enough(upgrade):
    answers, reasons = upgrade(
        policy("ann", "read admin", namespace="sales", application=NOTHING_BELOW, program=NOTHING_BELOW),
        policy("bob", "write", namespace="sales", dataset="orders"),
        policy("cy", "execute", namespace="sales", application="app", program=NOTHING_BELOW),
        policy("dee", "read", namespace=NOTHING_BELOW),
    )
    assert reasons == []
    assert answers == [
        ("ann", "instance:cdap", ""),
        ("ann", "namespace:sales", ""),
        ("ann", "namespace:sales", "ADMIN"),
        ("ann", "namespace:sales", "READ"),
        ("cy", "application:sales.app", ""),
        ("cy", "application:sales.app", "EXECUTE"),
        ("cy", "instance:cdap", ""),
        ("cy", "namespace:sales", ""),
        ("dee", "instance:cdap", ""),
        ("dee", "instance:cdap", "READ"),
    ]


def test_another_policy_that_gives_the_same_keeps_the_answer(upgrade):
    answers, _ = upgrade(policy("ann", **READER), policy("ann", namespace="sales", artifact="*"))
    assert answers == []


def test_entities_of_the_console_and_members_of_its_groups_are_answered_too(upgrade, console):
    answers, reasons = upgrade(
        policy(
            namespace="?*",
            artifact=NOTHING_BELOW,
            policyItems=[item(groups=["analysts", "strangers"])],
            name="p",
        )
    )
    assert answers == [
        ("ann", "instance:cdap", ""),
        ("ann", "namespace:sales", ""),
        ("ann", "namespace:sales", "READ"),
        ("ann", "namespace:soon", ""),
        ("ann", "namespace:soon", "READ"),
    ]
    assert reasons == [
        "the console knows no members of the group `strangers`, so their answers are not listed"
    ]


def test_a_policy_about_everybody_is_answered_for_all_active_users(upgrade, console):
    answers, reasons = upgrade(
        policy(policyItems=[item(groups=["public"])], **READER),
        policy("cy", namespace="sales", dataset="orders"),
    )
    assert [answer for answer in answers if answer[1:] == ("namespace:sales", "READ")] == [
        (user, "namespace:sales", "READ") for user in ("ann", "bob", "cy")
    ]
    # the dataset is visible to cy, and so are its namespace and the instance
    assert [answer for answer in answers if answer[0] == "cy"] == [("cy", "namespace:sales", "READ")]
    assert reasons == []


@pytest.mark.parametrize(
    ("bad_policy", "reason"),
    [
        (
            policy(policyItems=[item(groups=["public"])], **READER),
            "the policy is about everybody, and the console has no",
        ),
        (policy(policyItems=[item(roles=["r"])], **READER), "the console does not know who has the role `r`"),
        (
            policy("ann", namespace="?*", artifact=NOTHING_BELOW),
            "the policy applies to no entity that the console",
        ),
        (
            policy("ann", instance="test", namespace="sales", artifact="a"),
            "is about the instance `test`; this console",
        ),
        (
            policy("ann", namespace="my-space", artifact="a"),
            "the policy names `my-space`, which no entity can have: the",
        ),
    ],
)
def test_what_cannot_be_answered_is_named(upgrade, bad_policy, reason):
    _, reasons = upgrade(bad_policy)
    assert any(reason in text for text in reasons)


def test_a_bad_file_ends_with_code_2(tmp_path, db):
    path = tmp_path / "policies.json"
    path.write_text("<html>")
    for file, message in (
        (path, "policies.json is HTML"),
        (tmp_path / "missing", "cannot be read: No such file"),
    ):
        with pytest.raises(CommandError, match=message) as caught:
            call_command("ranger_upgrade", str(file))
        assert caught.value.returncode == 2


def test_the_number_of_queries_does_not_grow_with_the_policies(
    upgrade, console, django_assert_max_num_queries
):
    with django_assert_max_num_queries(3):
        upgrade(
            *(policy(f"u{n}", policyItems=[item(groups=["public", f"g{n}"])], **READER) for n in range(100))
        )


def test_entities_that_no_changed_policy_matches_are_not_evaluated(monkeypatch):
    """A tenant has many entities, and the policies of the recipe for containers match few of them."""
    file = policy_file(
        policy("ann", **READER), *(policy("bob", namespace="sales", dataset=f"d{n}") for n in range(100))
    )
    evaluated, matches = [], Enforcer.matches
    monkeypatch.setattr(
        Enforcer, "matches", lambda self, address: evaluated.append(str(address)) or matches(self, address)
    )
    entities = [parse_address(f"dataset:sales.e{n}") for n in range(1_000)]
    changed_answers(file, entities=entities, members={}, users=(), at=datetime(2026, 6, 1, tzinfo=UTC))
    assert set(evaluated) == {"instance:cdap", "namespace:sales"}
