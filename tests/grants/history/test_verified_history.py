"""`verify_journal` notices every change of the history by SQL, and evidence is not signed after one."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from authzconsole.evidence.services import request_evidence
from entities.address import parse_address
from grants.history import catch_up
from grants.journal import current_revision
from grants.models import Job, JobState, User
from grants.models.history import (
    PERIOD_MODELS,
    EntityPeriod,
    GenerationPeriod,
    GroupGrantPeriod,
    GroupPeriod,
    HistoryAddress,
    HistoryPosition,
    HistoryPrincipal,
    MembershipPeriod,
    UserGrantPeriod,
    UserPeriod,
)
from grants.verification.replay import first_fault, first_history_fault
from tests.support.authors import COMMAND
from tests.support.changes import (
    activate_generation,
    add_grant,
    add_group,
    add_member,
    add_user,
    delete_entity,
    recreate_entity,
    register_entity,
    remove_member,
    remove_user,
    rename_group,
    rename_user,
    revoke_grant,
    set_user_active,
)
from tests.support.jobs import execute_evidence

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture
def history():
    """Periods of each table, some of them closed, with renamed principals and names that others took over."""
    for name in ("alice", "bob", "carol", "eve"):
        add_user(name)
    add_user("root", is_principal=False)
    for group in ("readers", "writers"):
        add_group(group)
    for address in ("namespace:sales", "dataset:sales.orders"):
        register_entity(address)
    delete_entity(ORDERS)
    recreate_entity(ORDERS)
    add_member("bob", "readers")
    add_grant("user:alice", ORDERS, "READ")
    add_grant("group:readers", ORDERS, "WRITE")
    revoke_grant("user:alice", ORDERS, "READ")
    add_grant("user:alice", ORDERS, "ADMIN")
    add_grant("user:eve", ORDERS, "READ")
    remove_member("bob", "readers")
    add_member("carol", "writers")
    set_user_active("carol", active=False)
    activate_generation("existing")
    activate_generation("final")
    # dave takes over the name of the removed eve, and another bob comes
    remove_user("eve", revokes_grants=True)
    rename_user(author=COMMAND, name="bob", new_name="eve")
    add_user("bob")
    add_grant("user:bob", ORDERS, "EXECUTE")
    rename_group(author=COMMAND, name="readers", new_name="lectors")
    catch_up()


def open_grant(name):
    user = HistoryPrincipal.objects.get(type="user", name=name).pk
    return UserGrantPeriod.objects.filter(user=user, until_revision=None)


def test_the_history_of_every_kind_of_change_verifies(history):
    assert first_fault() is None and first_history_fault() is None
    # lines that the history does not contain yet are not missing
    add_user("late")
    assert first_fault() is None


def swap_names():
    alice, carol = (HistoryPrincipal.objects.get(type="user", name=name) for name in ("alice", "carol"))
    HistoryPrincipal.objects.filter(pk=alice.pk).update(name=None)
    HistoryPrincipal.objects.filter(pk=carol.pk).update(name="alice")
    HistoryPrincipal.objects.filter(pk=alice.pk).update(name="carol")


def empty_all():
    for model in PERIOD_MODELS:
        model._default_manager.all().delete()


def copy_closed_period():
    period = UserGrantPeriod.objects.exclude(until_revision=None).first()
    period.pk = None
    period.save(force_insert=True)


def move_to_another_container():
    other = HistoryAddress.objects.get(kind="instance")
    HistoryAddress.objects.filter(kind="dataset").update(namespace=other.pk)
    for model in (EntityPeriod, UserGrantPeriod, GroupGrantPeriod):
        model._default_manager.exclude(namespace=None).update(namespace=other.pk)


ATTACKS = {
    "the grants of a user are deleted": lambda: open_grant("alice").delete(),
    "a closed grant is deleted": lambda: UserGrantPeriod.objects.exclude(until_revision=None).delete(),
    "all periods are deleted": empty_all,
    "all grants to groups are deleted": lambda: GroupGrantPeriod.objects.all().delete(),
    "a grant goes to another user": lambda: open_grant("alice").update(
        user=HistoryPrincipal.objects.get(type="user", name="carol").pk
    ),
    "a grant begins later": lambda: open_grant("alice").update(from_revision=current_revision()),
    "a grant ended": lambda: open_grant("alice").update(until_revision=current_revision()),
    "a revoked grant has not ended": lambda: UserGrantPeriod.objects.exclude(until_revision=None).update(
        until_revision=None
    ),
    "a grant has another privilege": lambda: open_grant("alice").update(
        permission=UserGrantPeriod.objects.exclude(until_revision=None).first().permission
    ),
    "a grant has an end": lambda: open_grant("alice").update(valid_until=timezone.now()),
    "a grant has another reason": lambda: open_grant("alice").update(reason="approved"),
    "a grant has another time": lambda: open_grant("alice").update(since=timezone.now()),
    "a grant has another author": lambda: open_grant("alice").update(
        granted_by=HistoryPrincipal.objects.get(type="user", name="carol").pk
    ),
    "a grant is outside of its namespace": lambda: open_grant("alice").update(namespace=None),
    "a grant is about an unknown address": lambda: open_grant("alice").update(entity=1),
    "a grant is of an unknown user": lambda: open_grant("alice").update(user=1),
    "a closed period is there twice": copy_closed_period,
    "memberships are deleted": lambda: MembershipPeriod.objects.all().delete(),
    "a membership has not ended": lambda: MembershipPeriod.objects.update(until_revision=None),
    "a user was inactive": lambda: UserPeriod.objects.filter(name="alice").update(is_active=False),
    "a user was no principal": lambda: UserPeriod.objects.filter(name="alice").update(is_principal=False),
    "a user had another name": lambda: UserPeriod.objects.filter(name="alice").update(name="malice"),
    "a user had another role": lambda: UserPeriod.objects.filter(name="alice").update(role="auditor"),
    "a user was a service": lambda: UserPeriod.objects.filter(name="alice").update(is_service=True),
    "two principals exchange their names": swap_names,
    "groups are deleted": lambda: GroupPeriod.objects.all().delete(),
    "a group had another name": lambda: GroupPeriod.objects.filter(name="writers").update(name="x"),
    "an entity was deleted": lambda: EntityPeriod.objects.filter(kind="dataset").update(state="deleted"),
    "an entity has another name": lambda: EntityPeriod.objects.filter(kind="dataset").update(
        key="sales.other"
    ),
    "an address has another name": lambda: HistoryAddress.objects.filter(kind="dataset").update(
        key="sales.other"
    ),
    "an address is in another namespace": move_to_another_container,
    "another generation was active": lambda: GenerationPeriod.objects.update(name="core"),
    "the generations are deleted": lambda: GenerationPeriod.objects.all().delete(),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_on_the_history_is_noticed_and_evidence_is_not_signed(history, attack):
    ATTACKS[attack]()
    with pytest.raises(CommandError, match="--rebuild-history"):
        call_command("verify_journal", stdout=io.StringIO())
    evidence = request_evidence(
        entity=ORDERS,
        from_revision=1,
        to_revision=current_revision(),
        requested_by=User.objects.get(username="root"),
    )
    execute_evidence(number=evidence.pk)
    job = Job.objects.get(pk=evidence.job_id)
    assert job.state == JobState.FAILED and not job.result_path
    assert "Evidence is not signed, because the verification of the journal failed" in job.error
    # the way out that the message names
    call_command("verify_journal", "--rebuild-history", stdout=io.StringIO())
    assert first_history_fault() is None


def test_the_attack_a_position_that_hides_emptied_periods_derives_them_again(history):
    empty_all()
    HistoryPosition.objects.update(revision=0, hash="")
    evidence = request_evidence(
        entity=ORDERS,
        from_revision=1,
        to_revision=current_revision(),
        requested_by=User.objects.get(username="root"),
    )
    execute_evidence(number=evidence.pk)
    assert Job.objects.get(pk=evidence.job_id).state == JobState.DONE
    assert open_grant("alice").exists() and first_fault() is None
