"""Test periods of grants and memberships in change sets, plans and tenant documents, and that the journal
replays them.
"""

import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.change_set import ChangeSet, Join
from grants.changes import apply
from grants.errors import ChangeRefused, GrantError, PlanError
from grants.journal import Author, current_revision
from grants.journal_details import parse_detail, period_detail
from grants.models import GroupGrant, JournalLine, Membership, UserGrant
from grants.plans.sources.bulk import parse_bulk_change, subtree_plan
from grants.plans.sources.change_file import BadChangeFile, file_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.like import like_plan
from grants.validity import Validity, format_time
from tests.support.authors import COMMAND
from tests.support.changes import (
    add_grant,
    add_member,
    apply_plan,
    change_grants,
    change_members,
    change_planned_grants,
    create_inverse,
    create_plan_from_changes,
    remove_member,
    rename_group,
    renew_plan,
)
from tests.support.tenant_documents import (
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    refused_import,
    user,
)

pytestmark = pytest.mark.django_db
AUTHOR = Author("a command", reason="close")
ORDERS = parse_address("dataset:sales.orders")
NOW = datetime.now(UTC).replace(microsecond=0)
SOON, LATER = NOW + timedelta(days=1), NOW + timedelta(days=30)
UNTIL_SOON, UNTIL_LATER, BETWEEN = Validity(None, SOON), Validity(None, LATER), Validity(SOON, LATER)
OVER, NO_LIMITS = Validity(None, NOW - timedelta(days=1)), Validity()


@pytest.fixture(autouse=True)
def tenant():
    import_lines(
        entity("namespace:sales"), entity(str(ORDERS)), user("ann"), user("bob"), group("staff", "bob")
    )


def give(validity: Validity = NO_LIMITS, principal: str = "user:ann", reason: str = "close"):
    return add_grant(principal, ORDERS, Privilege.READ, validity, author=Author("a command", reason=reason))


def stored_validity(principal: str = "ann") -> Validity:
    return UserGrant.objects.get(user__username=principal).validity


def membership(name: str) -> Validity:
    return Membership.objects.get(user__username=name).validity


def last_line(action: str) -> JournalLine:
    return JournalLine.objects.filter(action=action).latest("revision")


def assert_journal_agrees() -> None:
    call_command("verify_journal", stdout=io.StringIO())


def make_over() -> None:
    """Let the grants that have an end expire, as if time had passed.

    The journal does not match the tables after that.
    """
    UserGrant.objects.filter(valid_until__isnull=False).update(valid_until=OVER.valid_until)


@pytest.mark.parametrize("period", [NO_LIMITS, UNTIL_SOON, BETWEEN])
@pytest.mark.parametrize("before", [None, NO_LIMITS, UNTIL_LATER])
@pytest.mark.parametrize("rest", ["", "plan 7", "group:before without limits; x", "group:valid ../..; y"])
def test_the_detail_of_a_line_has_the_period_and_the_period_before(period, before, rest):
    assert parse_detail(period_detail(period, rest, before=before)) == (period, before, rest)


def test_a_grant_gets_another_period_with_one_line_that_names_both():
    assert give(UNTIL_SOON).sentence == "granted 1"
    assert (stored_validity(), last_line("grant").detail) == (UNTIL_SOON, f"valid ../{format_time(SOON)}")
    before = current_revision()
    outcome = give(UNTIL_SOON)
    assert (outcome.has_changed, current_revision()) == (False, before)
    outcome = give(BETWEEN, reason="")
    assert (outcome.sentence, len(outcome.changed_periods), current_revision()) == (
        "changed the period of 1",
        1,
        before + 1,
    )
    line = last_line("grant")
    assert (
        line.detail == f"valid {format_time(SOON)}/{format_time(LATER)}; before valid ../{format_time(SOON)}"
    )
    # without a new reason, the grant keeps its reason
    assert (line.reason, UserGrant.objects.get().reason, stored_validity()) == ("close", "close", BETWEEN)
    give()
    assert last_line("grant").detail == f"before valid {format_time(SOON)}/{format_time(LATER)}"
    assert stored_validity() == NO_LIMITS
    assert_journal_agrees()


def test_a_change_set_with_an_end_in_the_past_is_refused_as_a_whole():
    with pytest.raises(ChangeRefused, match="`valid_until`: .* is in the past"):
        change_grants(
            grant=[("user:ann", ORDERS, Privilege.WRITE), ("user:ann", ORDERS, Privilege.READ, OVER)]
        )
    with pytest.raises(ChangeRefused, match="repeats"):
        change_grants(
            grant=[("user:ann", ORDERS, Privilege.READ), ("user:ann", ORDERS, Privilege.READ, UNTIL_SOON)]
        )
    assert not UserGrant.objects.exists()


def test_memberships_have_periods():
    assert add_member("ann", "staff", UNTIL_SOON).has_changed
    assert last_line("member-add").detail == f"valid ../{format_time(SOON)}; group:staff"
    assert not add_member("ann", "staff", UNTIL_SOON).has_changed
    joins = [Join("ann", "staff", UNTIL_LATER), Join("bob", "staff")]
    outcome = apply(ChangeSet.of(*joins), author=COMMAND)
    assert (outcome.sentence, membership("ann")) == ("changed the period of 1, 1 unchanged", UNTIL_LATER)
    assert_journal_agrees()
    assert "without an end date" in add_member("ann", "staff").sentence
    with pytest.raises(ChangeRefused, match="in the past"):
        add_member("ann", "staff", OVER)
    rename_group(author=AUTHOR, name="staff", new_name="team")
    add_member("ann", "team", UNTIL_SOON)
    assert_journal_agrees()
    assert remove_member("ann", "team").has_changed
    assert_journal_agrees()


def test_a_directory_ends_the_period_of_a_member_that_is_not_in_force():
    add_member("ann", "staff", BETWEEN)
    add_member("bob", "staff", UNTIL_SOON)
    ids = dict(Membership.objects.values_list("user__username", "user_id"))
    changes = change_members("staff", added=ids.values())
    assert ([change.user for change in changes.changes], membership("ann"), membership("bob")) == (
        ["ann"],
        NO_LIMITS,
        UNTIL_SOON,
    )
    assert_journal_agrees()


def test_undo_restores_periods_that_a_plan_changed_and_ended():
    give(UNTIL_SOON)
    give(BETWEEN, "group:staff")
    add_member("ann", "staff", UNTIL_SOON)
    plan = create_plan_from_changes(
        grant=[
            ("user:ann", ORDERS, Privilege.READ, UNTIL_LATER),
            ("user:ann", ORDERS, Privilege.WRITE, UNTIL_SOON),
        ],
        revoke=[("group:staff", ORDERS, Privilege.READ)],
        join=[Join("ann", "staff")],
    )
    changes, before = (
        list(plan.items.order_by("position").values_list(name, flat=True))
        for name in ("changes_period", "old_valid_until")
    )
    assert (changes, before[0], before[3]) == ([True, False, False, True], SOON, SOON)
    applied = apply_plan(plan, author=AUTHOR)
    assert (applied.effect["grants"], applied.effect["joins"]) == (2, 1)
    assert membership("ann") == NO_LIMITS and not GroupGrant.objects.exists()
    assert_journal_agrees()
    apply_plan(create_inverse(plan, author=AUTHOR), author=AUTHOR)
    assert (stored_validity(), GroupGrant.objects.get().validity, membership("ann")) == (
        UNTIL_SOON,
        BETWEEN,
        UNTIL_SOON,
    )
    assert_journal_agrees()
    with pytest.raises(PlanError, match="nothing to undo"):
        create_inverse(plan, author=AUTHOR)


def test_undo_also_restores_an_expired_period():
    give(UNTIL_SOON)
    make_over()
    plan = create_plan_from_changes(grant=[("user:ann", ORDERS, Privilege.READ)])
    apply_plan(plan, author=AUTHOR)
    apply_plan(create_inverse(plan, author=AUTHOR), author=AUTHOR)
    assert stored_validity() == OVER


def test_a_plan_whose_grants_ended_before_it_is_applied_is_refused_with_the_item():
    plan = create_plan_from_changes(grant=[("user:ann", ORDERS, Privilege.READ, UNTIL_SOON)])
    assert plan.items.get().validity == UNTIL_SOON
    change_planned_grants(plan, valid_until=OVER.valid_until)
    with pytest.raises(
        PlanError, match=r"item 1 of plan \d+ cannot be applied: `valid_until`: .* is in the past"
    ):
        apply_plan(plan, author=AUTHOR)
    with pytest.raises(PlanError, match="ended"):
        renew_plan(plan, author=AUTHOR)
    assert not UserGrant.objects.exists()


def test_copies_keep_periods_and_skip_expired_grants():
    give(UNTIL_SOON)
    add_member("ann", "staff", UNTIL_LATER)
    remove_member("bob", "staff")
    plan = copy_plan.create(author=AUTHOR, source="user:ann", target="user:bob")
    assert plan.items.get().validity == UNTIL_SOON
    like = like_plan.create(author=AUTHOR, source="ann", target="bob")
    assert {(item.verb, item.validity) for item in like.items.all()} == {
        ("join", UNTIL_LATER),
        ("grant", UNTIL_SOON),
    }
    assert renew_plan(like, author=AUTHOR).items.filter(valid_until=SOON).count() == 1
    make_over()
    with pytest.raises(PlanError, match="nothing to copy"):
        copy_plan.create(author=AUTHOR, source="user:ann", target="user:bob")


def test_a_bulk_plan_has_one_period_and_skips_grants_that_have_it():
    give(UNTIL_SOON)
    change = parse_bulk_change(
        verb="grant", principals=["user:ann", "user:bob"], privileges=["READ"], validity=UNTIL_SOON
    )
    plan = subtree_plan.create(author=AUTHOR, change=change, within=parse_address("namespace:sales"))
    assert "until" in plan.title
    assert sorted(plan.items.values_list("principal_name", "key", "valid_until")) == [
        ("ann", "sales", SOON),
        ("bob", "sales", SOON),
        ("bob", "sales.orders", SOON),
    ]
    assert renew_plan(plan, author=AUTHOR).items.count() == 3
    with pytest.raises(GrantError, match="in the past"):
        parse_bulk_change(verb="grant", principals=["user:ann"], privileges=["READ"], validity=OVER)


def test_a_file_of_changes_has_periods():
    header = "verb,principal,entity,privilege,valid_from,valid_until"
    row = f"user:ann,{ORDERS},READ"
    rows = [header, f"grant,{row},,{format_time(SOON)}", f"revoke,user:bob,{ORDERS},READ,,"]
    plan = file_plan.create(author=AUTHOR, raw="\n".join(rows).encode())
    assert list(plan.items.order_by("position").values_list("verb", "valid_until")) == [
        ("grant", SOON),
        ("revoke", None),
    ]
    line = {
        "verb": "grant",
        "principal": "user:ann",
        "entity": str(ORDERS),
        "privilege": "READ",
        "valid_from": format_time(SOON),
    }
    assert file_plan.create(author=AUTHOR, raw=json.dumps(line).encode()).items.get().validity == Validity(
        SOON
    )
    for times, fault in (
        ("2026-12-01T00:00:00,", "`valid_from`: .*no time zone"),
        ("2030-01-02T00:00:00Z,2030-01-01T00:00:00Z", "`valid_until`"),
        (",2020-01-01T00:00:00Z", "`valid_until`: .*in the past"),
    ):
        with pytest.raises(BadChangeFile, match=fault):
            file_plan.create(author=AUTHOR, raw=f"{header}\ngrant,{row},{times}".encode())
    with pytest.raises(BadChangeFile, match="only a grant has a period"):
        file_plan.create(author=AUTHOR, raw=f"{header}\nrevoke,{row},,{format_time(SOON)}".encode())
    with pytest.raises(BadChangeFile, match="another period"):
        file_plan.create(
            author=AUTHOR, raw=f"{header}\ngrant,{row},,{format_time(SOON)}\ngrant,{row},,".encode()
        )


def test_a_tenant_document_has_periods_and_comes_back_with_the_same_bytes():
    from_, until = "2026-12-01T00:00:00Z", "2020-12-05T16:00:00Z"
    import_lines(
        grant(
            "user:ann",
            str(ORDERS),
            "READ",
            valid_from="2026-12-01T01:00:00+01:00",
            valid_until="2030-12-05T17:00:00+01:00",
        ),
        grant("user:ann", str(ORDERS), "WRITE", reason="x"),
        grant("group:staff", str(ORDERS), "READ", valid_until=until),
        group("staff", "bob", {"name": "ann", "valid_from": from_}),
    )
    lines = export_lines()
    assert [line for line in lines if line["type"] in ("group", "grant")] == [
        group("staff", {"name": "ann", "valid_from": from_}, "bob"),
        grant("group:staff", str(ORDERS), "READ", valid_until=until),
        grant("user:ann", str(ORDERS), "READ", valid_from=from_, valid_until="2030-12-05T16:00:00Z"),
        grant("user:ann", str(ORDERS), "WRITE", reason="x"),
    ]
    assert_journal_agrees()
    document = export_bytes()
    assert import_lines(document).changes == {}
    empty_database()
    import_lines(document)
    assert export_bytes() == document
    assert_journal_agrees()


def test_a_tenant_document_changes_periods():
    import_lines(grant("user:ann", str(ORDERS), "READ", reason="old"), group("staff", "ann"))
    report = import_lines(
        grant("user:ann", str(ORDERS), "READ", valid_until=format_time(SOON)),
        group("staff", {"name": "ann", "valid_until": format_time(SOON)}),
    )
    assert report.changes == {("periods of grants changed", "READ"): 1, ("periods of members changed", ""): 1}
    assert (stored_validity(), membership("ann"), UserGrant.objects.get().reason) == (
        UNTIL_SOON,
        UNTIL_SOON,
        "old",
    )
    assert_journal_agrees()
    # documents of earlier versions list no times
    without_times = grant("user:ann", str(ORDERS), "READ"), group("staff", "ann")
    planned = import_lines(*without_times, dry_run=True)
    assert planned.changes == {
        ("periods of grants removed", "READ"): 1,
        ("periods of members removed", ""): 1,
    }
    assert (
        f"warning: line 1 has no times, so it would remove the period of READ on `{ORDERS}` of `user:ann`, which counts "
        f"{UNTIL_SOON.sentence}" in str(planned)
    )
    assert "would be periods of grants removed: 1 (1 READ)" in str(planned)
    assert "line 2 has no times, so it would remove the period of `user:ann` in `group:staff`" in str(planned)
    assert (stored_validity(), membership("ann")) == (UNTIL_SOON, UNTIL_SOON)
    assert import_lines(*without_times).changes == planned.changes
    assert (stored_validity(), membership("ann")) == (NO_LIMITS, NO_LIMITS)
    assert_journal_agrees()


def test_the_same_grant_on_two_lines_gets_the_same_period_in_any_order():
    lines = [
        grant("user:ann", str(ORDERS), "READ", valid_until=format_time(SOON)),
        grant("user:ann", str(ORDERS), "READ"),
    ]
    for order in (lines, lines[::-1]):
        UserGrant.objects.all().delete()
        import_lines(*order)
        assert stored_validity() == NO_LIMITS


@pytest.mark.parametrize(
    "line, fault",
    [
        (
            grant("user:ann", str(ORDERS), "READ", valid_from="2026-12-01T00:00:00"),
            "`valid_from`: .*no time zone",
        ),
        (grant("user:ann", str(ORDERS), "READ", valid_from=5), "`valid_from`: it must be text"),
        (
            grant(
                "user:ann",
                str(ORDERS),
                "READ",
                valid_from="2026-12-02T00:00:00Z",
                valid_until="2026-12-01T00:00:00Z",
            ),
            "`valid_until`: .*not after the beginning",
        ),
        (
            group("staff", {"name": "ann", "valid_until": "Friday"}),
            "`members`: entry 1: `valid_until`: `Friday` is not a time",
        ),
        (group("staff", {"name": "ann", "until": "x"}), "entry 1: `until` is not a member"),
        (group("staff", {"valid_until": "2030-01-01T00:00:00Z"}), "entry 1: a name must be text"),
        (group("staff", "ann", {"name": "ann"}), "entry 2: `ann` is listed twice"),
    ],
)
def test_invalid_periods_of_a_tenant_document_are_reported(line, fault):
    assert re.search(fault, str(refused_import(line)))


def test_a_grant_that_begins_later_is_noted():
    assert "takes effect on" in give(BETWEEN).notices[0]
