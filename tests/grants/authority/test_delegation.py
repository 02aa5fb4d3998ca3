"""Delegation: holders of ADMIN change grants on the entity and inside it, within the limits, and never for
themselves.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.authority.delegation import delegated_addresses, is_delegate
from grants.authority.rights import approvers_of, can_change_some_grants, can_see_holders, is_approver
from grants.errors import ChangeRefused, GrantError, NotAdministrator
from grants.models import GroupGrant, JournalLine, Membership, User, UserGrant
from grants.validity import Validity
from tests.support.authors import author_named, database_state
from tests.support.cast import HR, SALES, create_sample_tenant
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    change_grants,
    revoke_grant,
    set_user_active,
)

pytestmark = pytest.mark.django_db

READ, ADMIN = Privilege.READ, Privilege.ADMIN
ORDERS, NEW, SALARIES = map(
    parse_address, ("dataset:sales.orders", "dataset:sales.new", "dataset:hr.salaries")
)


@pytest.fixture
def cast(settings):
    settings.DELEGATION = True
    return create_sample_tenant()


def refusal_message(user: User, **changes) -> str:
    before = database_state()
    with pytest.raises(GrantError) as error:
        change_grants(author=author_named(user.username), **changes)
    assert database_state() == before
    return str(error.value)


def test_without_delegation_only_administrators_change_grants_and_approve(cast, settings):
    settings.DELEGATION = False
    for address in (ORDERS, NEW):
        for target in filter(None, (address, entity_at(address))):
            assert [name for name, user in cast.items() if can_change_some_grants(user, target)] == ["ada"]
            assert [name for name, user in cast.items() if is_approver(user, target, READ)] == ["ada"]
            assert [user.username for user in approvers_of(target, READ)] == ["ada"]
            assert [name for name, user in cast.items() if can_see_holders(user, target)] == ["ada", "aud"]
    assert "only administrators" in refusal_message(cast["ned"], grant=[("user:out", ORDERS, READ)])


def test_holders_of_admin_are_delegates_on_the_entity_and_inside_it(cast):
    add_grant("group:operators", "application:sales.shop", "ADMIN")
    addresses = [
        parse_address(text)
        for text in (
            *SALES,
            *HR,
            "dataset:sales.new",
            "program:sales.shop.service.new",
            "namespace:new",
            "instance:cdap",
        )
    ]
    inside_sales = {address for address in addresses if str(address.namespace) == "namespace:sales"}
    shop = {address for address in addresses if str(address.application) == "application:sales.shop"}
    expected = {"ned": inside_sales, "grp": shop}
    for name, user in cast.items():
        assert delegated_addresses(user, addresses) == expected.get(name, set()), name
        for address in (ORDERS, NEW, SALARIES):
            is_ned = name == "ned" and address != SALARIES
            assert can_change_some_grants(user, address) == (is_ned or name == "ada")
            assert can_see_holders(user, address) == (is_ned or name in ("ada", "aud"))
            assert is_approver(user, address, READ) == (is_ned or name == "ada")


def test_a_delegate_of_the_instance_changes_grants_everywhere(cast):
    add_grant("user:dee", "instance:cdap", "ADMIN")
    assert is_delegate(cast["dee"], SALARIES)
    assert add_grant("user:out", SALARIES, READ, author=author_named("dee")).granted


@pytest.mark.parametrize("end", ["over", "later", "deleted", "inactive", "revoked", "left"])
def test_only_grants_and_memberships_in_force_on_live_entities_make_a_delegate(end, cast):
    grp, now = cast["grp"], timezone.now()
    add_grant("group:operators", ORDERS, ADMIN)
    assert is_delegate(grp, ORDERS) and is_approver(grp, ORDERS, READ)
    match end:
        case "over":
            GroupGrant.objects.update(valid_until=now - timedelta(seconds=1))
        case "later":
            Membership.objects.update(valid_from=now + timedelta(hours=1))
        case "deleted":
            Entity.objects.filter(key=ORDERS.key).update(state=State.DELETED)
        case "inactive":
            set_user_active("grp", active=False)
            grp.refresh_from_db()
        case "revoked":
            revoke_grant("group:operators", ORDERS, ADMIN)
        case "left":
            Membership.objects.all().delete()
    assert not is_delegate(grp, ORDERS) and not is_approver(grp, ORDERS, READ)
    refusal_message(grp, grant=[("user:out", ORDERS, READ)])


def test_a_delegate_grants_and_revokes_and_the_journal_says_by_delegation(cast):
    author = author_named("ned")
    change_grants(
        author=author,
        grant=[("user:out", ORDERS, READ), ("group:operators", NEW, READ)],
        revoke=[("user:dee", ORDERS, READ)],
    )
    assert UserGrant.objects.get(user=cast["out"]).granted_by == cast["ned"]
    assert not UserGrant.objects.filter(user=cast["dee"], content_object__key=ORDERS.key).exists()
    lines = JournalLine.objects.filter(actor="ned").order_by("revision")
    assert [(line.action, line.detail) for line in lines] == [
        ("revoke", "by delegation"),
        ("plan", ""),
        ("grant", "by delegation"),
        ("grant", "by delegation"),
    ]
    until = timezone.now().replace(microsecond=0) + timedelta(days=2)
    add_grant("user:out", ORDERS, READ, Validity(None, until), author=author)
    assert "by delegation" in JournalLine.objects.latest("revision").detail


def test_a_delegate_gives_nothing_to_itself(cast):
    ned = cast["ned"]
    add_group("later")
    for group in ("operators", "later"):
        add_member("ned", group)
    Membership.objects.filter(group__name="later").update(valid_from=timezone.now() + timedelta(days=1))
    for principal in ("user:ned", "group:operators", "group:later"):
        assert "to itself" in refusal_message(
            ned, grant=[("user:out", ORDERS, READ), (principal, ORDERS, READ)]
        )
        add_grant(principal, ORDERS, READ)
        assert revoke_grant(principal, ORDERS, READ, author=author_named("ned")).revoked


def test_the_whole_change_set_is_refused_if_one_item_is_outside(cast):
    ned = cast["ned"]
    message = refusal_message(ned, grant=[("user:out", ORDERS, READ), ("user:out", SALARIES, READ)])
    assert "dataset:hr.salaries" in message
    assert message.replace("salaries", "x") == refusal_message(
        ned, grant=[("user:nobody", "dataset:hr.x", READ)]
    )
    refusal_message(ned, revoke=[("user:dee", ORDERS, READ), ("user:dee", SALARIES, READ)])
    refusal_message(cast["dee"], grant=[("user:out", ORDERS, READ)])
    with pytest.raises(ChangeRefused):
        add_grant("out", ORDERS, READ, author=author_named("ned"))


def test_limits_of_privileges_kinds_and_periods(cast, settings):
    ned, now = cast["ned"], timezone.now().replace(microsecond=0)
    for verb in ("grant", "revoke"):
        assert "ADMIN can only" in refusal_message(ned, **{verb: [("user:dee", ORDERS, ADMIN)]})
    assert not is_approver(ned, ORDERS, ADMIN)
    settings.DELEGATION_PRIVILEGES = ["READ", "ADMIN"]
    assert add_grant("user:dee", ORDERS, ADMIN, author=author_named("ned")).granted
    assert "WRITE can only" in refusal_message(ned, grant=[("user:dee", ORDERS, "WRITE")])
    settings.DELEGATION_KINDS = ["dataset"]
    assert "grants on a namespace" in refusal_message(ned, grant=[("user:dee", "namespace:sales", READ)])
    settings.DELEGATION_MAX_DAYS = 10
    for until in (None, now + timedelta(days=11)):
        assert "within 10 days" in refusal_message(
            ned, grant=[("user:out", ORDERS, READ, Validity(None, until))]
        )
    start = now + timedelta(days=30)
    too_long = Validity(start, start + timedelta(days=11))
    assert "within 10 days" in refusal_message(ned, grant=[("user:out", ORDERS, READ, too_long)])
    period = Validity(None, now + timedelta(days=9))
    assert add_grant("user:out", ORDERS, READ, period, author=author_named("ned")).granted
    assert revoke_grant("user:out", ORDERS, READ, author=author_named("ned")).revoked


def test_a_delegate_changes_nothing_else(cast):
    with pytest.raises(NotAdministrator):
        add_member("out", "operators", author=author_named("ned"))


def test_the_check_of_a_change_set_runs_a_fixed_number_of_queries(cast, django_assert_num_queries):
    addresses = [parse_address(f"dataset:sales.x{number}") for number in range(200)]
    with django_assert_num_queries(1):
        assert len(delegated_addresses(cast["ned"], addresses)) == 200
