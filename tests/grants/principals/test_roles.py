"""Test roles: groups whose stored names begin with `role:`, written `role:NAME`."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.access.what_can import all_permissions
from grants.change_set import (
    AddGroup,
    Exclude,
    Grant,
    Include,
    Join,
    Rename,
    as_text,
    change_from_text,
    inverse_of,
)
from grants.changes import ChangeSet, apply, preview
from grants.errors import GrantError, PrincipalError, SecondPersonRequired
from grants.evaluation.authzen_search import search_principals
from grants.evaluation.engine import check
from grants.evaluation.visibility import visibility_of
from grants.history.past import as_of
from grants.journal import current_revision
from grants.models import Membership, Role, RoleGroup, RoleMembership, User
from grants.plans.apply import apply_plan, inverse_plan
from grants.plans.sources.changes import change_set_plan
from grants.plans.sources.redundant import redundant_memberships
from grants.plans.staleness import invalidating_line
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import question_from_json
from grants.principal_names import format_principal, parse_principal
from grants.principals.administrator_loss import loss_if_group_excluded, loss_if_removed
from grants.principals.services import add_role
from grants.validity import Validity, at_time
from grants.verification.replay import first_fault
from tests.grants.reviews.support import item_of, open_campaign
from tests.support.authors import COMMAND, author_named
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    remove_group,
    remove_member,
    revoke_grant,
)
from tests.support.tenant_documents import (
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    journal_entries,
    refused_import,
    role,
    user,
)

pytestmark = pytest.mark.django_db
ORDERS = "dataset:sales.orders"
TENANT = [
    entity(ORDERS),
    user("carol", active=True),
    group("stewards"),
    role("stewards", "user:carol"),
    grant("role:stewards", ORDERS, "READ"),
]


def question(subject_type: str, name: str):
    body = {
        "subject": {"type": subject_type, "id": name},
        "action": {"name": "READ"},
        "resource": {"type": "dataset", "id": "sales.orders"},
        "context": {"explain": True},
    }
    return question_from_json(body, active_generation="final")


def test_a_role_is_written_and_read_as_one():
    add_role(author=COMMAND, name="stewards")
    row = Group.objects.get()
    assert row.name == format_principal(row) == "role:stewards"
    assert parse_principal("role:stewards") == ("group", "role:stewards")
    for text in ("group:role:stewards", "role:", "role: "):
        with pytest.raises(PrincipalError):
            parse_principal(text)


def test_no_group_gets_the_name_of_a_role():
    add_group("red")
    with pytest.raises(PrincipalError, match="role"):
        add_group("role:blue")
    with pytest.raises(PrincipalError, match="role"):
        apply(ChangeSet.of(Rename("group:red", "role:blue")), author=COMMAND)
    refused_import(group("role:blue"))
    assert not Group.objects.filter(name__startswith="role:").exists()


def test_a_role_keeps_its_type_when_it_is_renamed():
    add_role(author=COMMAND, name="stewards")
    apply(ChangeSet.of(Rename("role:stewards", "owners")), author=COMMAND)
    assert Group.objects.get().name == "role:owners"
    assert journal_entries()[-1][:5] == ("group-rename", "role:stewards", "", "", "role:owners")
    assert first_fault() is None


def test_decisions_name_the_role():
    import_lines(*TENANT)
    decision = check(question("user", "carol"))
    assert decision.is_permitted and "role:stewards" in str(decision)
    assert check(question("role", "stewards")).is_permitted
    assert not check(question("group", "stewards")).is_permitted
    assert not check(question("group", "role:stewards")).is_permitted


def test_searches_find_groups_and_roles_apart():
    import_lines(*TENANT, grant("group:stewards", ORDERS, "READ"))
    found = {
        subject_type: search_principals(question(subject_type, ""), after="", max_rows=10).ids
        for subject_type in ("user", "group", "role")
    }
    assert found == {"user": ["carol"], "group": ["stewards"], "role": ["role:stewards"]}


def test_a_document_with_roles_is_exported_as_it_was_imported():
    import_lines(*TENANT)
    assert [line for line in export_lines() if line["type"] != "entity"] == TENANT[1:]
    first = export_bytes()
    empty_database()
    import_lines(first)
    assert export_bytes() == first and not import_lines(first).changes
    assert ("member-add", "user:carol", "", "", "role:stewards", "test") in journal_entries()


def test_groups_in_roles_are_imported_and_exported():
    lines = [
        *TENANT[:2],
        user("bob", active=True),
        group("analysts", "carol", {"name": "bob", "valid_until": "2100-01-01T00:00:00Z"}),
        role("stewards", "user:bob", {"name": "group:analysts", "valid_from": "2026-01-01T00:00:00Z"}),
        TENANT[-1],
    ]
    import_lines(*lines)
    exported = [line for line in export_lines() if line["type"] == "role"]
    assert exported == lines[4:5] and not import_lines(export_bytes()).changes
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:analysts in role:stewards"}
    assert all(check(question("user", name)).is_permitted for name in ("bob", "carol"))
    assert first_fault() is None
    import_lines(role("stewards", "user:bob"))
    assert not check(question("user", "carol")).is_permitted and first_fault() is None


def test_a_role_contains_users_and_groups_but_no_roles():
    import_lines(*TENANT, role("owners"))
    for change in (Include("role:owners", "role:stewards"), Include("stewards", "stewards")):
        with pytest.raises(GrantError, match="role"):
            apply(ChangeSet.of(change), author=COMMAND)
    fault = refused_import(role("stewards", "role:owners"))
    assert "a role cannot contain a role" in str(fault)


def test_members_of_a_group_are_in_its_role_as_long_as_both_periods_last():
    import_lines(*TENANT, user("dan"))
    now = timezone.now().replace(microsecond=0)
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    apply(ChangeSet.of(Include("stewards", "role:stewards", Validity(None, later))), author=COMMAND)
    add_member("dan", "stewards", Validity(soon, None))
    (row,) = RoleMembership.objects.all()
    assert row.validity == Validity(soon, later)
    for moment, expected in ((now, False), (soon, True), (later, False)):
        with at_time(moment):
            assert check(question("user", "dan")).is_permitted is expected
    remove_member("dan", "stewards")
    assert not RoleMembership.objects.exists() and first_fault() is None


def test_the_effect_of_a_group_in_a_role_is_that_of_its_members():
    import_lines(*TENANT)
    import_lines(user("dan"), group("stewards", "carol", "dan"))
    change = ChangeSet.of(Include("stewards", "role:stewards"))
    assert change_from_text(as_text(change.changes[0])) == change.changes[0]
    effect = preview(change).effect
    assert [name for name, _ in effect.people] == ["dan"] and not effect.tally.lost
    outcome = apply(change, author=COMMAND)
    assert journal_entries()[-1][:5] == ("member-add", "group:stewards", "", "", "role:stewards")
    (inverse,) = [inverse_of(change) for change in outcome.changes]
    assert inverse == Exclude("stewards", "role:stewards")
    apply(ChangeSet.of(inverse), author=COMMAND)
    assert not check(question("user", "dan")).is_permitted and check(question("user", "carol")).is_permitted


def test_a_removed_group_leaves_its_roles():
    import_lines(*TENANT)
    import_lines(user("dan"), group("stewards", "dan"), role("stewards", "group:stewards"))
    remove_group("stewards")
    assert not RoleGroup.objects.exists() and not RoleMembership.objects.exists()
    assert first_fault() is None
    add_group("stewards")
    assert not check(question("user", "dan")).is_permitted


def test_a_membership_in_a_role_that_does_not_follow_is_a_fault():
    import_lines(*TENANT)
    import_lines(user("dan"), group("stewards"), role("stewards", "group:stewards"))
    via = RoleGroup.objects.get()
    RoleMembership.objects.create(user=User.objects.get(username="dan"), role=via.role, via=via)
    assert "user:dan" in str(first_fault())


def test_the_past_of_groups_in_roles_can_be_read():
    import_lines(*TENANT)
    import_lines(user("dan"), group("stewards", "dan"))
    before = current_revision()
    apply(ChangeSet.of(Include("stewards", "role:stewards")), author=COMMAND)
    between = current_revision()
    apply(ChangeSet.of(Exclude("stewards", "role:stewards")), author=COMMAND)
    for revision, expected in ((before, False), (between, True), (current_revision(), False)):
        with as_of(revision):
            assert check(question("user", "dan")).is_permitted is expected
    assert first_fault() is None


def test_the_grants_of_a_role_count_for_its_groups():
    import_lines(*TENANT, group("analysts"))
    before = current_revision()
    soon = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    import_lines(role("stewards", {"name": "group:stewards", "valid_until": soon.isoformat()}, "user:carol"))
    asked = question("group", "stewards")
    decision = check(asked)
    assert decision.is_permitted and "role:stewards" in str(decision)
    assert not check(question("group", "analysts")).is_permitted
    assert search_principals(question("group", ""), after="", max_rows=10).ids == ["stewards"]
    assert ("dataset:sales.orders", "get") in all_permissions("group", "stewards", GENERATIONS["final"])
    orders = Entity.objects.get(key="sales.orders")
    is_visible = visibility_of(Group.objects.get(name="stewards"), GENERATIONS["final"]).all_rows
    assert orders in Entity.objects.filter(is_visible)
    with at_time(soon):
        assert not check(asked).is_permitted
    with as_of(before):
        assert not check(asked).is_permitted
    with as_of(current_revision()):
        assert check(asked).is_permitted


def test_an_expectation_about_a_group_is_checked_when_its_role_changes():
    import_lines(*TENANT)
    import_lines(role("stewards", "group:stewards"))
    rule = {
        "subject": {"type": "group", "id": "stewards"},
        "action": {"name": "READ"},
        "resource": {"type": "dataset", "id": "sales.orders"},
    }
    import_lines({"type": "guardrail", "name": "keep", "expect": rule, "decision": True})
    with pytest.raises(GrantError, match="keep"):
        revoke_grant("role:stewards", ORDERS, "READ")
    with pytest.raises(GrantError, match="keep"):
        apply(ChangeSet.of(Exclude("stewards", "role:stewards")), author=COMMAND)


def test_the_journal_explains_roles_and_their_past_can_be_read():
    import_lines(*TENANT[:3])
    before = current_revision()
    add_role(author=COMMAND, name="stewards")
    add_user("dan")
    add_member("dan", "role:stewards")
    add_grant("role:stewards", ORDERS, "READ")
    assert first_fault() is None
    with as_of(current_revision()):
        assert [str(row) for row in Membership.objects.all()] == ["user:dan in role:stewards"]
        assert check(question("user", "dan")).is_permitted
    with as_of(before):
        assert not check(question("user", "dan")).is_permitted


def test_a_plan_includes_groups_in_roles_and_is_undone():
    import_lines(*TENANT, user("dan"), group("analysts", "dan"))
    import_lines(role("stewards", "user:carol", "group:stewards"))
    add_user("analysts")
    plan = change_set_plan.create(
        COMMAND,
        ChangeSet.of(
            AddGroup("role:readers"),
            Grant("role:readers", parse_address(ORDERS), Privilege.READ),
            Include("analysts", "role:readers"),
            Join("analysts", "role:readers"),
            Exclude("stewards", "role:stewards"),
        ),
    )
    assert [(item.verb, item.principal, item.group) for item in plan.items.order_by("position")][2:] == [
        ("join", "group:analysts", "role:readers"),
        ("join", "user:analysts", "role:readers"),
        ("leave", "group:stewards", "role:stewards"),
    ]
    apply_plan(author=replace(COMMAND, reason="readers"), plan_id=plan.pk)
    assert check(question("user", "dan")).is_permitted and first_fault() is None
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:analysts in role:readers"}
    undo = inverse_plan.create(COMMAND, plan.pk)
    apply_plan(author=replace(COMMAND, reason="undo"), plan_id=undo.pk)
    assert {str(row) for row in RoleGroup.objects.all()} == {"group:stewards in role:stewards"}
    assert not Group.objects.filter(name="role:readers").exists() and first_fault() is None


def test_the_undo_of_a_plan_keeps_a_role_that_got_another_group():
    import_lines(*TENANT, group("analysts"))
    plan = change_set_plan.create(
        COMMAND, ChangeSet.of(AddGroup("role:readers"), Include("stewards", "role:readers"))
    )
    apply_plan(author=replace(COMMAND, reason="readers"), plan_id=plan.pk)
    apply(ChangeSet.of(Include("analysts", "role:readers")), author=COMMAND)
    undo = inverse_plan.create(COMMAND, plan.pk)
    assert [item.verb for item in undo.items.all()] == ["leave"] and "role:readers" in undo.recipe["note"]


def test_a_plan_with_a_group_in_a_role_is_stale_when_the_membership_changes():
    import_lines(*TENANT)
    plan = change_set_plan.create(COMMAND, ChangeSet.of(Include("stewards", "role:stewards")))
    apply(ChangeSet.of(Include("stewards", "role:stewards")), author=COMMAND)
    assert invalidating_line(plan).detail == "role:stewards"


def test_a_plan_refuses_a_role_in_a_role():
    import_lines(*TENANT, role("owners"))
    with pytest.raises(GrantError, match="a role cannot contain a role"):
        change_set_plan.create(COMMAND, ChangeSet.of(Include("role:owners", "role:stewards")))


def test_memberships_in_a_role_with_groups_are_not_redundant():
    import_lines(*TENANT, user("dan"), group("empty", "dan"))
    import_lines(role("stewards", "user:carol", "group:stewards"), group("stewards", "carol", "dan"))
    found = redundant_memberships().values_list("user__username", "group__name")
    assert set(found) == {("dan", "empty")}


def test_the_warning_before_a_removal_counts_the_roles_of_the_group():
    import_lines(*TENANT, user("dan"), user("eve"), grant("role:stewards", ORDERS, "ADMIN"))
    import_lines(group("stewards", "dan"), role("stewards", "user:carol", "group:stewards"))
    group_row = Group.objects.get(name="stewards")
    assert loss_if_removed(group_row).one_admin_count == 1
    role_row = Group.objects.get(name="role:stewards")
    assert loss_if_group_excluded(group_row, role_row).one_admin_count == 1
    add_member("dan", "role:stewards")
    assert not loss_if_removed(group_row).total and not loss_if_group_excluded(group_row, role_row).total


def test_the_evidence_of_a_review_sees_memberships_through_roles():
    import_lines(*TENANT, user("dan"), grant("user:dan", ORDERS, "READ"))
    import_lines(group("stewards", "dan"), role("stewards", "user:carol", "group:stewards"))
    add_member("dan", "role:stewards")
    campaign = open_campaign()
    item = item_of(campaign, "user:dan", ORDERS)
    assert (item.redundant_through, item.peer_group, item.peers) == ("role:stewards", "role:stewards", 1)
    assert item_of(campaign, "user:dan", "group:stewards").reach == 1


def test_one_person_gives_nobody_the_admin_of_a_role_through_its_group_by_a_plan(settings):
    settings.FOUR_EYES = True
    import_lines(*TENANT, user("dan"), grant("role:stewards", ORDERS, "ADMIN"))
    import_lines(role("stewards", "group:stewards"))
    User.objects.create(username="ada", role=Role.ADMINISTRATOR, is_principal=False)
    author = replace(author_named("ada"), reason="they help")
    plan = change_set_plan.create(author, ChangeSet.of(Join("dan", "stewards")))
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        apply_plan(author=author, plan_id=plan.pk)
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        apply(ChangeSet.of(Join("dan", "stewards")), author=author)


def test_of_several_ways_into_a_role_the_one_that_ends_last_is_named():
    import_lines(*TENANT, group("analysts", "carol"))
    soon = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    import_lines(
        role("stewards", {"name": "user:carol", "valid_until": soon.isoformat()}, "group:analysts"),
    )
    assert soon.strftime("%H:%M") not in str(check(question("user", "carol")))
    remove_member("carol", "analysts")
    assert soon.strftime("%H:%M") in str(check(question("user", "carol")))
