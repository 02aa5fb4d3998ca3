"""With FOUR_EYES, one person cannot make a large or sensitive change alone, whatever account or detour the
person uses.
"""

from datetime import timedelta

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.utils import timezone

from authzconsole.common.invitations import invite
from authzconsole.common.tokens import create_token
from authzconsole.models import ApiToken
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.authority.four_eyes import application_fault, check_approval
from grants.changes import Shown
from grants.errors import GrantError, ReasonMissing, SecondPersonRequired
from grants.journal import Author
from grants.models import GroupGrant, JournalLine, Plan, Role, User, UserGrant
from grants.principals.services import accept_invitation, renew_user_password, set_user_role
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.requests.decide import Approval, approve_request
from grants.validity import Validity
from tests.support.authors import account, author_named, database_state
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.changes import (
    add_grant,
    add_member,
    add_user,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    delete_entity,
    discard_plan,
    register_entity,
    remove_group,
    remove_member,
    remove_user,
    rename_user,
    renew_plan,
    revoke_grant,
    set_user_active,
)

pytestmark = pytest.mark.django_db
ORDERS, SALARIES = parse_address("dataset:sales.orders"), parse_address("dataset:hr.salaries")
READ, ADMIN = Privilege.READ, Privilege.ADMIN


@pytest.fixture(autouse=True)
def cast(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS, settings.PROTECTED_NAMESPACES = True, 2, ["hr"]
    cast = create_sample_tenant()
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)
    return cast


def plan_of(author, *grants, **changes):
    return create_plan_from_changes(author=author, grant=list(grants), revoke=[], **changes)


SENSITIVE = [
    ("grants ADMIN", {"grant": [("user:dee", ORDERS, ADMIN)]}),
    ("protected namespace hr", {"grant": [("user:dee", SALARIES, READ)]}),
    ("concerns the person", {"grant": [("user:ada", ORDERS, READ)]}),
    (
        "more than 2 items",
        {"grant": [("user:out", ORDERS, Privilege(name)) for name in ("READ", "WRITE", "EXECUTE")]},
    ),
]


@pytest.mark.parametrize(("reason", "changes"), SENSITIVE)
def test_a_sensitive_change_needs_a_plan_that_a_second_person_applies(reason, changes):
    before = database_state()
    with pytest.raises(SecondPersonRequired, match=reason):
        change_grants(author=author_named("ada"), **changes)
    assert database_state() == before
    plan = create_plan_from_changes(author=author_named("ada"), revoke=[], **changes)
    before = database_state()
    with pytest.raises(SecondPersonRequired, match=f"{reason}.* you made it"):
        apply_plan(plan, author=author_named("ada"))
    assert database_state() == before
    assert apply_plan(plan, author=author_named("bob")).decided_by == "bob"


def test_a_longer_period_of_a_grant_of_admin_needs_two_persons():
    soon = Validity(None, timezone.now().replace(microsecond=0) + timedelta(hours=1))
    add_grant("user:dee", ORDERS, ADMIN, soon)
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        add_grant("user:dee", ORDERS, ADMIN, author=author_named("ada"))


def test_other_changes_and_commands_need_one_person(settings):
    assert add_grant("user:out", ORDERS, READ, author=author_named("ada")).has_changed
    plan = create_plan_from_changes(author=author_named("ada"), grant=[], revoke=[("user:dee", ORDERS, READ)])
    apply_plan(plan, author=author_named("ada"))
    assert add_grant("user:out", SALARIES, ADMIN).has_changed
    # a change that changes nothing is not refused
    assert not add_grant("user:out", SALARIES, ADMIN, author=author_named("ada")).has_changed
    settings.FOUR_EYES = False
    assert add_grant("user:ada", SALARIES, ADMIN, author=author_named("ada")).has_changed


def test_revoking_in_a_protected_namespace_needs_two_persons():
    add_grant("user:dee", SALARIES, READ)
    with pytest.raises(SecondPersonRequired, match="protected namespace hr"):
        revoke_grant("user:dee", SALARIES, READ, author=author_named("ada"))


def test_membership_of_a_group_with_admin_needs_two_persons(cast):
    add_grant("group:operators", ORDERS, ADMIN)
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        add_member("dee", "operators", author=author_named("ada"))
    assert not cast["dee"].groups.exists()


def test_memberships_concern_the_user_and_the_protected_namespaces_of_the_group(cast):
    Group.objects.create(name="readers")
    with pytest.raises(SecondPersonRequired, match="concerns the person"):
        add_member("ada", "readers", author=author_named("ada"))
    add_grant("group:readers", SALARIES, READ)
    assert GroupGrant.objects.get(group__name="readers").namespace.key == "hr"
    add_member("dee", "readers")
    for service in (add_member, remove_member):
        with pytest.raises(SecondPersonRequired, match="protected namespace hr"):
            service(
                author=author_named("ada"),
                user={add_member: "out", remove_member: "dee"}[service],
                group="readers",
            )
    assert add_member("dee", "operators", author=author_named("ada")).has_changed


def test_grants_to_a_group_of_the_author_concern_the_author(cast):
    Group.objects.get(name="operators").user_set.add(cast["ada"])
    with pytest.raises(SecondPersonRequired, match="concerns the person"):
        add_grant("group:operators", ORDERS, READ, author=author_named("ada"))
    assert add_grant("group:operators", ORDERS, READ, author=author_named("bob")).has_changed


def test_activations_lifecycle_changes_and_removals_need_two_persons():
    add_grant("user:ina", ORDERS, ADMIN)
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        set_user_active("ina", author=author_named("ada"), active=True)
    assert set_user_active("dee", author=author_named("ada"), active=False).has_changed, (
        "ending access needs one person"
    )
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        register_entity(
            "dataset:sales.new", author=author_named("ada"), creator="user:dee", generation="core"
        )
    assert register_entity("dataset:sales.new", author=author_named("ada")).has_changed
    with pytest.raises(SecondPersonRequired, match="more than 2 items"):
        remove_user("ned", author=author_named("ada"), revokes_grants=True)
    add_grant("group:operators", SALARIES, READ)
    with pytest.raises(SecondPersonRequired, match="protected namespace hr"):
        remove_group("operators", author=author_named("ada"), revokes_grants=True)


def test_a_deletion_that_removes_protected_grants_needs_two_persons():
    add_grant("user:dee", SALARIES, READ)
    with pytest.raises(SecondPersonRequired, match="protected namespace hr"):
        delete_entity(SALARIES, author=author_named("ada"), generation="core")
    assert delete_entity("dataset:sales.customers", author=author_named("ada"), generation="core").has_changed


def test_a_second_account_or_token_of_the_person_is_not_a_second_person(settings):
    plan = plan_of(author_named("ada"), ("user:dee", ORDERS, ADMIN))
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    for impostor in (author_named("ada", token_by="ada"), author_named("robot", token_by="ada")):
        with pytest.raises(SecondPersonRequired, match="you made it"):
            apply_plan(plan, author=impostor)
    # in the other direction, and under another name
    of_robot = plan_of(author_named("robot", token_by="ada"), ("user:dee", ORDERS, ADMIN))
    with pytest.raises(SecondPersonRequired, match="you made it"):
        apply_plan(of_robot, author=author_named("ada"))
    token_author = author_named("robot", token_by="ada")
    rename_user(name="ada", new_name="eve")
    for impostor in (author_named("eve"), token_author):
        with pytest.raises(SecondPersonRequired, match="you made it"):
            apply_plan(plan, author=impostor)
    # a token that another person created belongs to that person
    assert apply_plan(plan, author=author_named("robot", token_by="bob")).state == "applied"


def test_grants_to_a_service_account_concern_the_creator_of_its_token():
    add_user("robot", is_service=True)
    change = {"grant": [("user:robot", ORDERS, READ)]}
    create_token(author=author_named("ada"), owner="robot", name="t", scopes=["read"], days=1)
    with pytest.raises(SecondPersonRequired, match="concerns the person"):
        change_grants(author=author_named("ada"), **change)
    assert change_grants(author=author_named("bob"), **change).has_changed


def test_a_service_account_cannot_grant_to_the_creator_of_its_token():
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    with pytest.raises(SecondPersonRequired, match="concerns the person"):
        add_grant("user:ada", ORDERS, READ, author=author_named("robot", token_by="ada"))


def test_names_that_differ_in_case_are_different_accounts_and_cannot_be_added(cast):
    with pytest.raises(GrantError):
        add_user("Ada", author=author_named("ada"), role=Role.ADMINISTRATOR)
    # an account of an earlier version: the key of the account decides, not its name
    User.objects.create(username="Ada", role=Role.ADMINISTRATOR, is_principal=False)
    plan = plan_of(author_named("Ada"), ("user:dee", ORDERS, ADMIN))
    assert plan.maker_ids == [account("Ada").pk]
    with pytest.raises(SecondPersonRequired):
        apply_plan(plan, author=author_named("Ada"))


@pytest.mark.parametrize(
    "control",
    [
        lambda author: renew_user_password(author=author, name="bob"),
        lambda author: (
            set_user_role(author=author, name="bob", role=Role.ORDINARY),
            set_user_role(author=author, name="bob", role=Role.ADMINISTRATOR),
        ),
    ],
)
def test_an_account_whose_password_or_role_the_person_set_is_no_second_person_for_a_while(settings, control):
    plan = plan_of(author_named("ada"), ("user:dee", ORDERS, ADMIN))
    control(author_named("ada"))
    with pytest.raises(
        SecondPersonRequired, match="count as one person until 20.*because one changed the password"
    ):
        apply_plan(plan, author=author_named("bob"))
    # a rename does not hide it
    rename_user(author=author_named("ada"), name="bob", new_name="rob")
    with pytest.raises(SecondPersonRequired, match="count as one person"):
        apply_plan(plan, author=author_named("rob"))
    settings.FOUR_EYES_ACCOUNT_HOURS = 0
    assert apply_plan(plan, author=author_named("rob")).state == "applied"


@pytest.mark.parametrize(
    ("control", "hours"),
    [
        (lambda author: set_user_role(author=author, name="bob", role=Role.ADMINISTRATOR), 24),
        # the attack: wait until the control is forgotten, and only then use the password or the link
        (lambda author: renew_user_password(author=author, name="bob"), 24 + 72),
        (lambda author: invite(author=author, name="bob"), 24 + 72),
    ],
)
def test_accounts_count_as_one_person_until_a_day_after_the_secret_was_used(control, hours, monkeypatch):
    plan = plan_of(author_named("ada"), ("user:dee", ORDERS, ADMIN))
    User.objects.filter(username="bob").update(password=make_password(None))
    set_user_role(author=SETUP, name="bob", role=Role.ORDINARY)
    control(author_named("ada"))
    set_user_role(author=SETUP, name="bob", role=Role.ADMINISTRATOR)
    now = timezone.now()
    for passed, is_one_person in ((hours - 1, True), (hours + 1, False)):
        later = now + timedelta(hours=passed)
        monkeypatch.setattr("grants.authority.persons.timezone.now", lambda later=later: later)
        assert ("one person" in application_fault(author_named("bob"), plan)) is is_one_person


def test_the_attack_an_administrator_invites_another_one_and_approves_with_this_account():
    plan = plan_of(author_named("ada"), ("user:dee", ORDERS, ADMIN))
    User.objects.filter(username="bob").update(password=make_password(None))
    invite(author=author_named("ada"), name="bob")
    bob = account("bob")
    assert accept_invitation(author=author_named("bob"), user=bob, password="chosen by ada 4711")
    with pytest.raises(SecondPersonRequired, match="or invited it"):
        apply_plan(plan, author=author_named("bob"))


def test_renewing_and_undoing_do_not_make_a_second_person():
    plan = create_plan_from_changes(
        author=author_named("ada"), grant=[("user:dee", ORDERS, ADMIN)], revoke=[]
    )
    for name in ("ada", "bob"):
        plan = renew_plan(plan, author=author_named(name))
        with pytest.raises(SecondPersonRequired):
            apply_plan(plan, author=author_named("ada"))
    apply_plan(plan, author=author_named("bob"))
    undo = create_inverse(plan, author=author_named("ada"))
    apply_plan(undo, author=author_named("ada"))
    again = create_inverse(undo, author=author_named("ada"))
    with pytest.raises(SecondPersonRequired, match="grants ADMIN"):
        apply_plan(again, author=author_named("ada"))


@pytest.mark.parametrize("end", ["applied", "discarded"])
def test_a_plan_that_proposes_nothing_any_more_is_no_plan_of_another_person(end):
    """Otherwise one administrator could renew and apply an old plan of a colleague alone, also one that gives
    it access.
    """
    User.objects.create(username="cat", role=Role.ADMINISTRATOR)
    plan = plan_of(author_named("ada"), ("user:bob", ORDERS, READ))
    if end == "applied":
        apply_plan(plan, author=author_named("cat"))
        revoke_by_plan = create_inverse(plan, author=author_named("bob"))
        apply_plan(revoke_by_plan, author=author_named("ada"))
    else:
        discard_plan(plan, author=author_named("ada"))
    for _ in range(2):
        plan = renew_plan(plan, author=author_named("bob"))
        with pytest.raises(SecondPersonRequired, match="concerns the person who makes it, and you made it"):
            apply_plan(plan, author=author_named("bob"))
    assert not UserGrant.objects.filter(user__username="bob").exists()
    assert apply_plan(plan, author=author_named("cat")).state == "applied"


def test_a_plan_of_an_earlier_version_is_known_by_the_name_of_its_maker():
    plan = plan_of(author_named("ada"), ("user:dee", ORDERS, ADMIN))
    Plan.objects.update(maker_ids=[])
    JournalLine.objects.filter(action="plan-create").delete()
    with pytest.raises(SecondPersonRequired):
        apply_plan(plan, author=author_named("ada"))
    assert not application_fault(author_named("bob"), Plan.objects.get())


@pytest.mark.parametrize("is_on", [True, False])
def test_a_person_cannot_approve_their_own_request_with_and_without_four_eyes(is_on, cast, settings):
    settings.FOUR_EYES = is_on
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    for approver in (author_named("ada"), author_named("robot", token_by="ada")):
        with pytest.raises(SecondPersonRequired, match="cannot approve their own request"):
            check_approval(approver, {cast["ada"].pk, cast["dee"].pk})
    check_approval(author_named("bob"), {cast["ada"].pk, cast["dee"].pk})


def test_only_with_four_eyes_an_administrator_cannot_approve_requests_of_accounts_that_it_added(settings):
    add_user("new", author=author_named("ada"))
    requesters = {account("new").pk}
    with pytest.raises(SecondPersonRequired):
        check_approval(author_named("ada"), requesters)
    settings.FOUR_EYES = False
    check_approval(author_named("ada"), requesters)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_service_account_is_no_second_person_for_requests(is_on, cast, settings):
    """It is neither for a request that it makes (also after a rename, or without its token), nor for one
    about its own access.
    """
    settings.FOUR_EYES = is_on
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    robot, ada = author_named("robot", token_by="ada"), author_named("ada")
    for_dee = RequestDraft("close", [WantedAccess(SALARIES, "READ")], subject=cast["dee"])
    for_robot = RequestDraft("close", [WantedAccess(SALARIES, "WRITE")], subject=account("robot"))
    requests = [
        create_request(author=robot, draft=for_dee),
        create_request(author=author_named("bob"), draft=for_robot),
    ]
    with pytest.raises(SecondPersonRequired):
        approve_request(author=ada, request_id=requests[1].pk, approval=Approval({1: ""}))
    ApiToken.objects.update(revoked_at=timezone.now())
    rename_user(author=SETUP, name="robot", new_name="android")
    with pytest.raises(SecondPersonRequired):
        approve_request(author=ada, request_id=requests[0].pk, approval=Approval({1: ""}))
    approval = Approval({1: ""}, shown=Shown(accepts_beyond=True))
    assert approve_request(
        author=author_named("bob"), request_id=requests[0].pk, approval=approval
    ).decided_at


def test_a_reason_is_required_for_changes_of_accounts(settings):
    settings.FOUR_EYES, settings.REASON_REQUIRED = False, True
    silent = author_named("ada", reason=" ")
    before = database_state()
    for change in (
        lambda: add_grant("user:out", ORDERS, READ, author=silent),
        lambda: add_member("dee", "operators", author=silent),
    ):
        with pytest.raises(ReasonMissing, match="the reason is missing"):
            change()
    assert database_state() == before
    assert add_grant("user:out", ORDERS, READ, author=author_named("ada")).has_changed
    assert add_grant("user:out", SALARIES, READ, author=Author("a command")).has_changed
    assert UserGrant.objects.filter(user__username="out").count() == 2
