"""A change that adds a violation of a guardrail is refused or recorded, on each path that changes grants."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import parse_address
from entities.vocabulary import KINDS, Privilege
from grants.change_set import (
    AddUser,
    ChangeSet,
    Deactivate,
    Delete,
    DeleteGuardrail,
    EndException,
    Grant,
    Join,
    Register,
    RemovePrincipal,
    Revoke,
    SetGuardrail,
    change_from_text,
    inverse_of,
)
from grants.changes import apply, give_back, preview
from grants.changes.memberships import remove_all_memberships
from grants.errors import GuardrailError, GuardrailHolds, GuardrailViolated, LifecycleError, PrincipalError
from grants.guardrails.evaluation import violations
from grants.guardrails.rules import rule_from_members
from grants.journal import current_revision
from grants.models import Guardrail, GuardrailException, JournalLine, PlanState, UserGrant
from grants.validity import Validity
from grants.verification import first_fault
from tests.support.authors import COMMAND, account, author_named, database_state, is_permitted, lines_after
from tests.support.changes import (
    activate_generation,
    add_grant,
    add_group,
    add_member,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    delete_entity,
    recreate_entity,
    remove_group,
    remove_member,
    remove_user,
    rename_group,
    rename_user,
    revoke_grant,
    set_user_active,
)
from tests.support.guardrails import FORBID, add_exception, add_guardrail

pytestmark = pytest.mark.django_db

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
BOTH = {
    "forbid_both": [
        {"privilege": "WRITE", "within": ORDERS},
        {"privilege": "ADMIN", "within": "namespace:hr"},
    ]
}
ADMINS = {"require": {"privilege": "ADMIN", "on": "kind:dataset", "at_least": 1}}


def expect(subject: str, action: str, resource: str, decision: bool) -> dict:
    (subject_type, _, name), (kind, _, key) = subject.partition(":"), resource.partition(":")
    return {
        "expect": {
            "subject": {"type": subject_type, "id": name},
            "action": {"name": action},
            "resource": {"type": kind, "id": key},
        },
        "decision": decision,
    }


def refused(change, *parts: str) -> GuardrailHolds:
    """Make a change that a guardrail must refuse; check that nothing was written, and return the error."""
    before = database_state()
    with pytest.raises(GuardrailHolds) as refusal:
        change()
    assert database_state() == before
    for part in parts:
        assert part in str(refusal.value)
    return refusal.value


def test_a_grant_that_adds_a_violation_is_refused_with_the_guardrail_and_the_grant(cast):
    add_guardrail("no-writers", FORBID | {"reason": "policy 4.2"})
    error = refused(
        lambda: add_grant("user:dee", ORDERS, "WRITE"),
        "guardrail no-writers forbids this change",
        "user:dee would hold WRITE on dataset:sales.orders (policy 4.2).\nChange the grants",
        "ask an administrator for an exception",
    )
    assert error.status == 409 and error.members == {
        "violations": [
            {
                "guardrail": "no-writers",
                "principal": "user:dee",
                "entity": ORDERS,
                "privilege": "WRITE",
                "through": "user:dee",
            }
        ]
    }
    add_grant("user:dee", CUSTOMERS, "READ")
    add_grant("user:dee", "dataset:hr.salaries", "WRITE")


def test_old_violations_refuse_nothing_and_another_way_to_one_is_no_new_violation(cast):
    add_grant("group:operators", ORDERS, "WRITE")
    add_guardrail("no-writers", FORBID)
    add_grant("user:grp", ORDERS, "WRITE")
    add_grant("user:grp", CUSTOMERS, "READ")
    revoke_grant("user:grp", ORDERS, "WRITE")
    refused(lambda: add_grant("user:grp", CUSTOMERS, "WRITE"))


def test_a_container_that_a_grant_registers_gives_what_patterns_give_there(cast):
    add_grant("group:operators", "application:sales.*", "EXECUTE")
    add_guardrail("no-execution", {"forbid": {"privileges": ["EXECUTE"], "within": "instance:cdap"}})
    program = "program:sales.new.workflow.nightly"
    refused(
        lambda: add_grant("user:dee", program, "READ"),
        "user:grp would hold EXECUTE on application:sales.new",
    )


def test_a_guardrail_about_a_group_counts_its_members_only(cast):
    add_group("contractors")
    add_member("dee", "contractors")
    add_guardrail("contractors", {"forbid": FORBID["forbid"] | {"members_of": "group:contractors"}})
    add_grant("user:grp", ORDERS, "WRITE")
    refused(lambda: add_grant("user:dee", ORDERS, "WRITE"), "user:dee")
    # each way to become a violation
    refused(lambda: add_member("grp", "contractors"), "user:grp would hold WRITE")
    add_grant("group:operators", CUSTOMERS, "WRITE")
    refused(lambda: add_member("dee", "operators"), "user:dee would hold WRITE", "through group:operators")
    add_member("ina", "contractors")
    add_grant("user:ina", ORDERS, "WRITE")
    refused(lambda: set_user_active("ina", active=True), "user:ina would hold WRITE")


def test_a_grant_to_a_group_counts_for_each_member(cast):
    add_guardrail("no-writers", FORBID)
    refused(lambda: add_grant("group:operators", ORDERS, "WRITE"), "user:grp", "through group:operators")


@pytest.mark.parametrize(
    "changes",
    [
        [Join("new", "contractors"), Grant("user:new", parse_address(ORDERS), Privilege.WRITE)],
        [Join("new", "contractors"), Join("new", "operators")],
        [Join("new", "contractors"), Register(parse_address("dataset:sales.new"), creator="user:new")],
    ],
)
def test_access_of_users_that_the_change_adds_is_checked(changes, cast):
    """Syncs and plans add users together with their grants and memberships, and in this generation the creator gets everything."""
    activate_generation("existing")
    add_group("contractors")
    add_grant("group:operators", CUSTOMERS, "WRITE")
    add_guardrail("contractors", {"forbid": FORBID["forbid"] | {"members_of": "group:contractors"}})
    added = ChangeSet.of(AddUser("new"), *changes)
    refused(lambda: apply(added, author=COMMAND), "user:new would hold WRITE")


def test_a_grant_that_begins_later_is_checked_now(cast):
    later = (timezone.now() + timedelta(days=3)).replace(microsecond=0)
    validity = Grant("user:dee", parse_address(ORDERS), Privilege.WRITE).validity._replace(valid_from=later)
    add_guardrail("no-writers", FORBID)
    refused(lambda: add_grant("user:dee", ORDERS, "WRITE", validity))
    add_guardrail("dee", expect("user:dee", "READ", CUSTOMERS, False))
    refused(lambda: add_grant("user:dee", CUSTOMERS, "READ", validity), "dee")


def test_a_grant_after_the_end_of_a_membership_violates_nothing(cast):
    later = (timezone.now() + timedelta(days=3)).replace(microsecond=0)
    add_group("contractors")
    no_limits = Join("dee", "contractors").validity
    add_member("dee", "contractors", no_limits._replace(valid_until=later))
    add_guardrail("contractors", {"forbid": FORBID["forbid"] | {"members_of": "group:contractors"}})
    add_grant("user:dee", ORDERS, "WRITE", no_limits._replace(valid_from=later))
    refused(lambda: add_member("dee", "contractors"))


def test_two_privileges_together_are_refused_from_both_sides(cast):
    add_guardrail("both", BOTH)
    add_grant("user:dee", ORDERS, "WRITE")
    refused(lambda: add_grant("user:dee", "dataset:hr.salaries", "ADMIN"), "user:dee would hold ADMIN")
    add_grant("user:grp", "namespace:hr", "ADMIN")
    refused(lambda: add_grant("group:operators", ORDERS, "WRITE"), "user:grp would hold")
    refused(
        lambda: change_grants(grant=[("user:out", ORDERS, "WRITE"), ("user:out", "namespace:hr", "ADMIN")])
    )


def test_a_required_holder_cannot_be_taken_away_but_access_can_always_be_ended(cast):
    add_guardrail("admins", ADMINS)
    refused(
        lambda: revoke_grant("user:ned", ORDERS, "ADMIN"), "too few users hold ADMIN on dataset:sales.orders"
    )
    add_member("ned", "operators")
    add_grant("group:operators", ORDERS, "ADMIN")
    revoke_grant("user:ned", ORDERS, "ADMIN")
    add_grant("user:grp", CUSTOMERS, "ADMIN")
    outcome = set_user_active("ned", active=False)
    assert not any("dataset:sales.customers" in notice for notice in outcome.notices)
    outcome = set_user_active("grp", active=False)
    assert any("too few users hold ADMIN on dataset:sales.orders" in notice for notice in outcome.notices)
    # a new address without a holder
    refused(lambda: add_grant("user:out", "dataset:sales.new", "READ"), "dataset:sales.new")
    change_grants(
        grant=[("user:out", "dataset:sales.new", "READ"), ("user:out", "dataset:sales.new", "ADMIN")]
    )


def test_the_end_of_the_access_of_one_person_does_not_let_another_one_lose_a_required_grant(cast):
    add_guardrail("admins", ADMINS)
    orders = parse_address(ORDERS)
    revoke = Revoke("user:ned", orders, Privilege.ADMIN)

    def make(*changes):
        return apply(ChangeSet.of(*changes), author=COMMAND)

    for other in (Deactivate("out"), RemovePrincipal("user:ina", True), Delete(parse_address(CUSTOMERS))):
        refused(lambda other=other: make(revoke, other), "too few users hold ADMIN on dataset:sales.orders")
    assert make(revoke, Deactivate("ned")).has_changed


def test_a_group_with_a_required_grant_is_not_removed_also_beside_a_user(cast):
    add_group("admins")
    add_member("dee", "admins")
    add_grant("group:admins", ORDERS, "ADMIN")
    revoke_grant("user:ned", ORDERS, "ADMIN")
    add_guardrail("admins", ADMINS)
    for others in ((), (RemovePrincipal("user:ina", True),)):
        changes = ChangeSet.of(RemovePrincipal("group:admins", True), *others)
        refused(lambda changes=changes: apply(changes, author=COMMAND), "too few users hold ADMIN")


def test_only_a_limit_of_an_existing_grant_takes_a_required_holder_away(cast):
    add_guardrail("admins", ADMINS)
    later = Validity(valid_from=(timezone.now() + timedelta(days=3)).replace(microsecond=0))
    with CaptureQueriesContext(connection) as queries:
        add_grant("user:dee", ORDERS, "ADMIN", later)
    assert not any("at_least" in row["sql"] and "COUNT" in row["sql"] for row in queries)
    refused(lambda: add_grant("user:ned", ORDERS, "ADMIN", later), f"too few users hold ADMIN on {ORDERS}")
    add_grant("user:grp", ORDERS, "ADMIN")
    add_grant("user:ned", ORDERS, "ADMIN", later)


def test_a_member_cannot_leave_who_is_required(cast):
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    add_guardrail("admins", ADMINS)
    refused(lambda: remove_member("grp", "operators"), "dataset:hr.salaries")
    assert remove_all_memberships(author=COMMAND, user=account("grp")).has_changed


def test_a_decision_stays_as_expected(cast):
    add_guardrail("dee-reads", expect("user:dee", "READ", ORDERS, True))
    add_guardrail("grp-never", expect("user:grp", "READ", ORDERS, False))
    refused(lambda: revoke_grant("user:dee", ORDERS, "READ"), "dee-reads")
    refused(lambda: add_grant("group:operators", ORDERS, "READ"), "grp-never")
    add_group("readers")
    add_grant("group:readers", ORDERS, "READ")
    refused(lambda: add_member("grp", "readers"), "grp-never")


def test_a_generation_that_decides_otherwise_is_refused(cast):
    """The two generations decide about this operation differently."""
    activate_generation("core")

    def decision(generation: str, operation: str) -> bool:
        return is_permitted("ned", operation, "namespace:sales", generation)

    operation = next(
        name
        for name in KINDS["namespace"].operations
        if len({decision(generation, name) for generation in ("core", "existing", "final")}) > 1
    )
    before = decision("core", operation)
    other = next(name for name in ("existing", "final") if decision(name, operation) != before)
    add_guardrail("ned", expect("user:ned", operation, "namespace:sales", before))
    refused(lambda: activate_generation(other), "guardrail ned")


def test_a_recreated_entity_is_checked_with_its_leftover_grants(cast):
    add_guardrail("no-writers", FORBID)
    refused(
        lambda: recreate_entity("dataset:sales.legacy"), "user:dee would hold WRITE on dataset:sales.legacy"
    )


def test_a_warning_is_in_the_result_and_in_the_journal(cast):
    add_guardrail("no-writers", FORBID | {"level": "warn"})
    revision = current_revision()
    outcome = add_grant("user:dee", ORDERS, "WRITE")
    sentence = "guardrail no-writers is violated: user:dee would hold WRITE on dataset:sales.orders"
    assert outcome.notices == (sentence,) and outcome.revision == current_revision()
    assert lines_after(revision)[-1] == (
        "guardrail-violate",
        "user:dee",
        ORDERS,
        "WRITE",
        "no-writers: user:dee holds WRITE on dataset:sales.orders",
    )
    assert first_fault() is None


@pytest.mark.parametrize(
    ("subject", "place"),
    [("", ""), ("user:dee", ""), ("group:operators", ORDERS), ("", "namespace:sales"), ("user:dee", ORDERS)],
)
def test_an_exception_accepts_violations_until_its_end(subject, place, cast):
    add_member("dee", "operators")
    add_guardrail("no-writers", FORBID)
    end = timezone.now() + timedelta(days=9)
    outcome = add_exception("no-writers", subject=subject, place=place, until=end)
    assert outcome.has_changed and outcome.previous is None
    notices = add_grant("user:dee", ORDERS, "WRITE").notices
    assert "an exception accepts this until" in notices[0]
    revoke_grant("user:dee", ORDERS, "WRITE")
    assert first_fault() is None
    GuardrailException.objects.update(valid_until=timezone.now())
    refused(lambda: add_grant("user:dee", ORDERS, "WRITE"))


@pytest.mark.parametrize(("subject", "place"), [("user:grp", ""), ("group:others", ""), ("", CUSTOMERS)])
def test_an_exception_for_another_principal_or_place_accepts_nothing(subject, place, cast):
    add_group("others")
    add_guardrail("no-writers", FORBID)
    add_exception("no-writers", subject=subject, place=place, until=timezone.now() + timedelta(days=9))
    refused(lambda: add_grant("user:dee", ORDERS, "WRITE"))


def test_an_exception_needs_a_reason_an_owner_and_an_end(cast):
    add_guardrail("no-writers", FORBID)
    end = timezone.now() + timedelta(days=9)
    for options, field in (
        ({"owner": "nobody"}, "owner"),
        ({"owner": "ina"}, "owner"),
        ({"until": "2020-01-01T00:00:00Z"}, "valid_until"),
        ({"until": "tomorrow"}, "valid_until"),
        ({"author": author_named("ada", reason=" ")}, "reason"),
        ({"subject": "user:nobody"}, "subject"),
        ({"place": "dataset:sales.none"}, "place"),
    ):
        with pytest.raises(GuardrailError) as error:
            add_exception("no-writers", **({"until": end} | options))
        assert error.value.field == field
    assert not GuardrailException.objects.exists()


def test_guardrails_and_exceptions_are_undone_with_the_inverse_changes(cast):
    first = add_guardrail("no-writers", FORBID)
    change = first.changes[0]
    second = add_guardrail("no-writers", FORBID | {"level": "warn"})
    restore = inverse_of(second.changes[0], second.previous)
    assert restore == change and change_from_text('["guardrail-delete","no-writers"]') == inverse_of(change)
    apply(ChangeSet.of(restore), author=COMMAND)
    assert Guardrail.objects.get().level == "block"
    made = add_exception("no-writers", subject="user:dee", until=timezone.now() + timedelta(days=9))
    apply(ChangeSet.of(inverse_of(made.changes[0], made.previous)), author=COMMAND)
    assert not GuardrailException.objects.exists()
    add_exception("no-writers", until=timezone.now() + timedelta(days=9))
    ended = apply(ChangeSet.of(EndException("no-writers")), author=COMMAND)
    apply(ChangeSet.of(inverse_of(ended.changes[0], ended.previous)), author=COMMAND)
    deleted = apply(ChangeSet.of(DeleteGuardrail("no-writers")), author=COMMAND)
    assert deleted.previous == change and not Guardrail.objects.exists()
    assert first_fault() is None


def test_a_new_guardrail_that_is_violated_already_needs_confirmation(cast):
    add_grant("user:dee", ORDERS, "WRITE")
    change = SetGuardrail("no-writers", rule_from_members(FORBID).text)
    with pytest.raises(GuardrailViolated, match="violated already by 1 grant: user:dee holds WRITE") as error:
        apply(ChangeSet.of(change), author=COMMAND)
    assert error.value.count == 1 and not Guardrail.objects.exists()
    assert "1 violation exists" in add_guardrail("no-writers", FORBID).sentence


def test_a_revocation_of_a_grant_without_a_stored_kind_counts_the_holders_left(cast):
    add_guardrail("admins", ADMINS)
    UserGrant.objects.update(entity_kind="")
    refused(lambda: revoke_grant("user:ned", ORDERS, "ADMIN"), "too few users hold ADMIN")


def test_a_guardrail_names_what_exists_and_contradicts_no_other(cast):
    nowhere = {"privilege": "READ", "within": "namespace:none"}
    both = [{"privilege": "WRITE", "within": "namespace:sales"}, nowhere]
    unregistered = "namespace:none is not registered, so the guardrail matches nothing: correct the address"
    for members, field, message in (
        ({"forbid": FORBID["forbid"] | {"within": "namespace:none"}}, "forbid.within", unregistered),
        ({"forbid_both": both}, "forbid_both.within", unregistered),
        (
            {"forbid": FORBID["forbid"] | {"members_of": "group:none"}},
            "forbid.members_of",
            "group:none does not exist: add it first, or correct the name",
        ),
        (
            expect("user:none", "READ", ORDERS, True),
            "expect.subject",
            "user:none does not exist: add it first, or correct the name",
        ),
    ):
        with pytest.raises(GuardrailError) as error:
            add_guardrail("x", members)
        assert error.value.field == field and message in str(error.value)
    add_guardrail("a", expect("user:dee", "READ", ORDERS, True))
    with pytest.raises(GuardrailError, match="contradicts guardrail a"):
        add_guardrail("b", expect("user:dee", "READ", ORDERS, False))
    add_guardrail("admins", ADMINS)
    with pytest.raises(GuardrailError, match="contradicts guardrail admins"):
        add_guardrail("c", {"forbid": {"privileges": ["ADMIN"], "within": "namespace:sales"}})
    with pytest.raises(GuardrailError, match="not a name of a guardrail"):
        add_guardrail("a b", FORBID)


@pytest.mark.parametrize(
    ("action", "privileges", "within", "is_contradiction"),
    [
        ("READ", ["READ"], "namespace:sales", True),
        ("READ", ["READ", "WRITE"], ORDERS, True),
        ("get", list(Privilege), "instance:cdap", True),
        # another privilege or another place permits it
        ("get", ["READ"], "namespace:sales", False),
        ("READ", ["WRITE"], "namespace:sales", False),
        ("READ", ["READ"], "namespace:hr", False),
    ],
)
def test_a_decision_that_a_guardrail_makes_impossible_contradicts_it(
    cast, action, privileges, within, is_contradiction
):
    permitted, denied = (expect("user:dee", action, ORDERS, decision) for decision in (True, False))
    forbid = {"forbid": {"privileges": list(map(str, privileges)), "within": within}}
    for first, second in ((permitted, forbid), (forbid, permitted)):
        add_guardrail("first", first)
        if is_contradiction:
            with pytest.raises(GuardrailError, match="it contradicts guardrail first"):
                add_guardrail("second", second)
        else:
            assert "together" not in add_guardrail("second", second).sentence
        Guardrail.objects.all().delete()
    add_guardrail("first", denied)
    assert "together" not in add_guardrail("second", forbid).sentence


def test_what_a_group_or_the_active_generation_makes_impossible_is_named_when_it_is_written(cast):
    add_group("contractors")
    forbid = FORBID["forbid"] | {"privileges": ["READ"], "members_of": "group:contractors"}
    add_guardrail("no-readers", {"forbid": forbid, "level": "warn"})
    reads, holds = (
        expect("user:dee", action, ORDERS, True) | {"level": "warn"} for action in ("read", "READ")
    )
    assert "together" not in add_guardrail("a", reads).sentence
    add_member("dee", "contractors")
    outcome = add_guardrail("b", holds)
    assert outcome.sentence == "guardrail b was added; it cannot hold together with guardrail no-readers now"
    outcome = add_guardrail("no-readers", {"forbid": forbid})
    assert {name for name in "ab" if f"together with guardrail {name} now" in outcome.sentence} == {"a", "b"}
    # `existing` permits it by READ on the namespace
    nobody = {"forbid": {"privileges": ["READ"], "within": CUSTOMERS}}
    add_guardrail("c", expect("user:ned", "read", CUSTOMERS, True))
    assert "together with guardrail c now" in add_guardrail("nobody", nobody).sentence
    activate_generation("existing")
    assert "together" not in add_guardrail("nobody", nobody | {"level": "warn"}).sentence


def test_an_expected_decision_on_an_address_that_is_not_registered_is_decided_from_the_address(cast):
    for namespace in ("nowhere", "sales"):
        for name, decision in (("denied", False), ("permitted", True)):
            rule = expect("user:dee", "READ", f"dataset:{namespace}.{name}", decision)
            add_guardrail(f"{name}-{namespace}", rule)
    assert [row.guardrail for row in violations()] == ["permitted-nowhere", "permitted-sales"]


def test_what_a_guardrail_names_is_not_removed_and_keeps_its_meaning_with_a_new_name(cast):
    add_group("contractors")
    add_member("dee", "contractors")
    forbid = FORBID["forbid"] | {"members_of": "group:contractors", "within": "dataset:sales.planned"}
    add_grant("user:ned", "dataset:sales.planned", "READ")
    revoke_grant("user:ned", "dataset:sales.planned", "READ")
    add_guardrail("contractors", {"forbid": forbid})
    add_guardrail("dee", expect("user:dee", "READ", ORDERS, True))
    with pytest.raises(PrincipalError, match="guardrail contractors names group:contractors"):
        remove_group("contractors")
    with pytest.raises(PrincipalError, match="guardrail dee names user:dee"):
        remove_user("dee", revokes_grants=True)
    with pytest.raises(LifecycleError, match="guardrail contractors names"):
        delete_entity("dataset:sales.planned")
    rename_group(name="contractors", new_name="externals")
    rename_user(name="dee", new_name="dora")
    assert Guardrail.objects.get(name="contractors").principal == "group:externals"
    assert Guardrail.objects.get(name="dee").principal == "user:dora"
    refused(lambda: add_grant("user:dora", "dataset:sales.planned", "WRITE"))
    assert first_fault() is None


def test_the_exceptions_of_a_removed_user_end_with_a_journal_line(cast):
    add_guardrail("no-writers", FORBID)
    add_exception("no-writers", subject="user:out", until=timezone.now() + timedelta(days=9))
    revision = current_revision()
    remove_user("out")
    assert ("exception-end", "user:out", "", "", "from no-writers") in lines_after(revision)
    assert first_fault() is None


def test_a_changed_guardrail_in_the_tables_is_found_by_the_verification(cast):
    add_guardrail("no-writers", FORBID)
    assert first_fault() is None
    Guardrail.objects.update(level="warn")
    assert "guardrail no-writers" in str(first_fault())


def test_a_plan_is_refused_and_its_undo_too(cast):
    plan = create_plan_from_changes(grant=[("user:dee", ORDERS, "WRITE")])
    applied = apply_plan(create_plan_from_changes(revoke=[("user:ned", CUSTOMERS, "ADMIN")]))
    add_guardrail("no-writers", FORBID)
    add_guardrail("ned", expect("user:ned", "ADMIN", CUSTOMERS, False))
    refused(lambda: apply_plan(plan), "no-writers")
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    inverse = create_inverse(applied)
    refused(lambda: apply_plan(inverse), "ned")


def test_a_plan_may_grant_before_it_revokes(cast):
    add_guardrail("both", BOTH)
    add_grant("user:dee", ORDERS, "WRITE")
    apply_plan(
        create_plan_from_changes(
            grant=[("user:dee", "namespace:hr", "ADMIN")], revoke=[("user:dee", ORDERS, "WRITE")]
        )
    )
    assert not list(violations())


def test_access_that_is_given_back_cannot_break_a_guardrail(cast):
    add_guardrail("dee-reads", expect("user:dee", "READ", ORDERS, True))
    author = author_named("dee")
    refused(
        lambda: give_back(author=author, change=Revoke("user:dee", parse_address(ORDERS), Privilege.READ))
    )


def test_a_preview_says_what_would_be_violated_and_changes_nothing(cast):
    add_guardrail("no-writers", FORBID)
    add_guardrail("warned", FORBID | {"level": "warn"})
    before = database_state()
    shown = preview(ChangeSet.of(Grant("user:dee", parse_address(ORDERS), Privilege.WRITE)))
    assert [row.violation.guardrail for row in shown.added.rows] == ["no-writers", "warned"]
    assert [row.is_blocked for row in shown.added.rows] == [True, False]
    assert database_state() == before
    assert not preview(ChangeSet.of(Grant("user:dee", parse_address(ORDERS), Privilege.READ))).added.rows


def test_a_change_that_no_guardrail_is_about_runs_two_more_queries(cast):
    def count(privilege: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            add_grant("user:dee", CUSTOMERS, privilege)
        return len(queries)

    before = count("READ")
    add_guardrail("elsewhere", {"forbid": {"privileges": ["READ"], "within": "namespace:hr"}})
    assert count("EXECUTE") <= before + 3


def test_the_number_of_queries_does_not_grow_with_the_guardrails(cast):
    def count(user: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            add_grant(user, CUSTOMERS, "WRITE")
        return len(queries)

    def add(number: int) -> None:
        add_guardrail(f"f{number}", {"forbid": FORBID["forbid"] | {"members_of": "group:operators"}})
        add_guardrail(f"b{number}", BOTH | {"level": "warn"})
        add_guardrail(f"r{number}", ADMINS)
        add_guardrail(f"e{number}", expect("user:dee", "ADMIN", CUSTOMERS, False))

    add(0)
    few = count("user:dee")
    for number in range(1, 12):
        add(number)
    assert count("user:out") <= few
    assert JournalLine.objects.filter(action="guardrail-set").count() == 48
