"""Break-glass access: who can start it, how it ends, who sees it, and that another person reviews it."""

from datetime import timedelta
from smtplib import SMTPServerDisconnected
from unittest.mock import Mock

import pytest
from django.core import mail
from django.core.management import call_command
from django.utils import timezone

from authzconsole.common.tokens import create_token
from authzconsole.mail import send_break_glass_mail
from authzconsole.models import SecurityEvent
from authzconsole.tasks import sweep_access_requests
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.authority.break_glass import (
    MAX_UNREVIEWED,
    BreakGlassError,
    end_break_glass,
    has_break_glass_access,
    start_break_glass,
)
from grants.errors import GrantError, SecondPersonRequired
from grants.journal import Author
from grants.models import BreakGlassUse, JournalHead, JournalLine, Role, User
from grants.principals.services import begin_invitation, renew_user_password, set_user_role
from tests.grants.test_journal import in_threads
from tests.support.authors import database_state
from tests.support.cast import SETUP
from tests.support.changes import (
    add_grant,
    add_user,
    apply_plan,
    create_plan_from_changes,
    rename_user,
    set_user_active,
)
from tests.support.pages import page_html

ORDERS = parse_address("dataset:sales.orders")
LIST, START = "/journal/break-glass", "/journal/break-glass/start"


@pytest.fixture(autouse=True)
def accounts(settings, cast):
    settings.FOUR_EYES, settings.BREAK_GLASS_ACCOUNTS = True, ["bob", "dee", "aud"]
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)
    return cast


@pytest.fixture
def bob(cast):
    return Author("bob", reason="payroll is blocked", user_id=cast["bob"].pk)


def grant_admin(author):
    return add_grant("user:dee", ORDERS, Privilege.ADMIN, author=author)


def end_all():
    BreakGlassUse.objects.update(
        started_at=timezone.now() - timedelta(hours=2), ends_at=timezone.now() - timedelta(hours=1)
    )


def test_the_account_acts_alone_for_one_hour_without_any_task(bob):
    with pytest.raises(SecondPersonRequired):
        grant_admin(bob)
    use = start_break_glass(author=bob)
    assert use.ends_at - use.started_at == timedelta(hours=1)
    token = create_token(author=bob, owner="bob", name="t", scopes=["administer"], days=1).token
    with pytest.raises(SecondPersonRequired):
        grant_admin(Author("bob", reason="r", user_id=bob.user_id, token=token.pk, issuer="bob"))
    assert grant_admin(bob).has_changed
    end_all()
    with pytest.raises(SecondPersonRequired):
        add_grant("user:out", ORDERS, Privilege.ADMIN, author=bob)


def test_a_clock_that_is_set_back_does_not_extend_the_access(bob):
    start_break_glass(author=bob)
    BreakGlassUse.objects.update(
        started_at=timezone.now() + timedelta(minutes=5), ends_at=timezone.now() + timedelta(minutes=65)
    )
    assert not has_break_glass_access(bob.user_id)


def test_a_clock_that_is_set_back_during_the_hour_does_not_extend_the_access(bob, monkeypatch):
    seconds, clock = 5_000.0, timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: clock)
    monkeypatch.setattr("grants.models.break_glass.time.clock_gettime", lambda _: seconds)
    use = start_break_glass(author=bob)
    seconds, clock = seconds + 3_599, clock + timedelta(minutes=9)
    assert has_break_glass_access(bob.user_id)
    seconds += 1
    assert not has_break_glass_access(bob.user_id) and not BreakGlassUse.objects.get().is_active
    with pytest.raises(SecondPersonRequired):
        grant_admin(bob)
    # the machine was started again, or it is another one
    BreakGlassUse.objects.update(boot="other")
    assert has_break_glass_access(bob.user_id)
    JournalHead.objects.update(at=use.ends_at)
    assert not has_break_glass_access(bob.user_id)
    clock -= timedelta(minutes=30)
    with pytest.raises(BreakGlassError, match="correct the clock"):
        start_break_glass(author=bob)


def test_access_that_was_ended_does_not_return_when_the_clock_is_set_back(bob, monkeypatch):
    use = start_break_glass(author=bob)
    end_break_glass(author=bob, number=use.pk)
    monkeypatch.setattr(timezone, "now", lambda: use.started_at)
    assert not has_break_glass_access(bob.user_id) and not BreakGlassUse.objects.get().is_active


def test_the_access_is_journalled_recorded_and_shown_until_it_is_reviewed(browse, bob):
    start_break_glass(author=bob)
    line = JournalLine.objects.get(action="break-glass-start")
    assert (line.actor, line.principal, line.reason) == ("bob", "user:bob", "payroll is blocked")
    assert SecurityEvent.objects.filter(kind="break-glass-start", account="bob").exists()
    for name in ("ada", "aud"):
        assert "has break-glass access until" in page_html(browse(name).get("/"))
    assert "break-glass" not in page_html(browse("dee").get("/"))
    end_all()
    assert "needs a review" in page_html(browse("ada").get("/"))
    use = BreakGlassUse.objects.get()
    answer = browse("ada").post(f"{LIST}/{use.pk}/review", {"comment": "justified"})
    assert answer.status_code == 303 and "needs a review" not in page_html(browse("ada").get("/"))
    line = JournalLine.objects.get(action="break-glass-review")
    assert (line.actor, line.reason, line.detail) == ("ada", "justified", f"break-glass access {use.pk}")
    answer = browse("aud").get(f"{LIST}/{use.pk}/")
    assert "reviewed by ada" in page_html(answer)
    lines = browse("aud").get(answer.context["journal_url"])
    assert (
        lines.status_code == 200
        and not lines.context["form"].errors
        and lines.context["form"]["actor"].value() == "bob"
    )


def test_only_administrators_in_the_setting_can_start_it_with_a_reason(browse, bob, settings):
    before = database_state()
    assert "Start break-glass access" not in page_html(browse("ada").get(LIST))
    answer = browse("ada").post(START, {"reason": "curious"})
    assert answer.status_code == 400 and "only an account in BREAK_GLASS_ACCOUNTS" in page_html(answer)
    assert browse("aud").post(START, {"reason": "x"}).status_code == 403
    assert browse("dee").post(START, {"reason": "x"}).status_code == 404
    assert browse("bob").post(START, {"reason": " "}).status_code == 400
    assert database_state() == before and not BreakGlassUse.objects.exists()
    assert browse("bob").post(START, {"reason": "payroll"}).status_code == 303
    assert "has break-glass access already" in page_html(browse("bob").post(START, {"reason": "again"}))


def test_starting_it_needs_a_recent_authentication(browse, settings):
    settings.REAUTHENTICATION_SECONDS = 0
    answer = browse("bob").post(START, {"reason": "payroll"})
    assert not BreakGlassUse.objects.exists() and answer.status_code != 303


def test_the_person_who_used_it_cannot_review_it_with_any_account(browse, bob, cast):
    use = start_break_glass(author=bob)
    answer = browse("ada").post(f"{LIST}/{use.pk}/review", {"comment": "fine"})
    assert answer.status_code == 400 and "has not ended" in page_html(answer)
    end_all()
    assert "because it is your own" in page_html(browse("bob").get(f"{LIST}/{use.pk}/"))
    answer = browse("bob").post(f"{LIST}/{use.pk}/review", {"comment": "fine"})
    assert answer.status_code == 400 and "Another person must review" in page_html(answer)
    User.objects.create(username="robot", role=Role.ADMINISTRATOR, is_service=True)
    secret = create_token(author=bob, owner="robot", name="t", scopes=["administer"], days=1).secret
    answer = browse().post(
        f"/api/v1/break-glass-uses/{use.pk}/review",
        {"comment": "fine"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 403 and answer.json()["type"].endswith("second-person-required")
    assert not BreakGlassUse.objects.get().is_reviewed
    assert browse("aud").post(f"{LIST}/{use.pk}/review", {"comment": "fine"}).status_code == 403


def test_the_access_cannot_be_renewed_forever_without_a_review(browse, bob, settings):
    for _ in range(MAX_UNREVIEWED):
        use = start_break_glass(author=bob)
        end_all()
    for _ in range(2):
        with pytest.raises(BreakGlassError, match="another person must review one first"):
            start_break_glass(author=bob)
    # another account of the same person, and another name
    settings.BREAK_GLASS_ACCOUNTS = ["bob", "bill"]
    User.objects.create(username="bill", role=Role.ADMINISTRATOR, is_principal=False)
    renew_user_password(author=bob, name="bill")
    with pytest.raises(BreakGlassError, match="wait for a review"):
        start_break_glass(author=Author("bill", reason="x", user_id=User.objects.get(username="bill").pk))
    settings.BREAK_GLASS_ACCOUNTS = []
    rename_user(name="bob", new_name="rob")
    settings.BREAK_GLASS_ACCOUNTS = ["rob"]
    renamed = Author("rob", reason="x", user_id=bob.user_id)
    with pytest.raises(BreakGlassError, match="wait for a review"):
        start_break_glass(author=renamed)
    assert browse("ada").post(f"{LIST}/{use.pk}/review", {"comment": "justified"}).status_code == 303
    assert start_break_glass(author=renamed).is_active


def test_the_review_needs_a_comment_and_happens_once(browse, bob):
    use = start_break_glass(author=bob)
    assert browse("ada").post(f"{LIST}/{use.pk}/end").status_code == 303, "an administrator can end it early"
    assert not has_break_glass_access(bob.user_id)
    url = f"{LIST}/{use.pk}/review"
    assert browse("ada").post(url, {"comment": " "}).status_code == 400
    assert browse("ada").post(url, {"comment": "justified"}).status_code == 303
    answer = browse("ada").post(url, {"comment": "other"})
    assert answer.status_code == 400 and "already reviewed by ada" in page_html(answer)
    assert BreakGlassUse.objects.get().comment == "justified"


def test_rest_starts_reads_ends_and_reviews(browse):
    root, json = "/api/v1/break-glass-uses", {"content_type": "application/json"}
    bob, ada = browse("bob"), browse("ada")
    created = bob.post(root, {"reason": "payroll"}, **json)
    assert created.status_code == 201 and created.json()["active"] is True
    path = f"{root}/{created.json()['number']}"
    assert (
        created["Location"].endswith(path) and bob.post(root, {"reason": "again"}, **json).status_code == 409
    )
    assert ada.get(path).json() == created.json()
    assert ada.post(f"{path}/review", {"comment": "fine"}, **json).status_code == 409
    assert ada.post(f"{path}/end", {}, **json).json()["active"] is False
    assert [item["account"] for item in browse("aud").get(f"{root}?unreviewed=true").json()["items"]] == [
        "bob"
    ]
    assert ada.post(f"{path}/review", {"comment": "fine"}, **json).json()["reviewed_by"] == "ada"
    assert (
        ada.get(f"{root}?unreviewed=true").json()["items"] == [] and len(ada.get(root).json()["items"]) == 1
    )
    for method, suffix in (("get", ""), ("post", "/end"), ("post", "/review")):
        assert (
            getattr(ada, method)(
                f"{root}/99{suffix}",
                {"comment": "x"} if suffix == "/review" else None,
                **(json if method == "post" else {}),
            ).status_code
            == 404
        )
    assert browse("dee").get(root).status_code == browse("dee").get(path).status_code == 403


def test_administrators_and_auditors_get_one_email(bob, settings, monkeypatch):
    settings.EMAIL_HOST = "mail.example.com"
    User.objects.filter(username__in=["ada", "aud", "dee"]).update(email="x@example.com")
    User.objects.filter(username="ada").update(email="ada@example.com")
    use = start_break_glass(author=bob)
    with monkeypatch.context() as failing:
        failing.setattr("django.core.mail.EmailMessage.send", Mock(side_effect=SMTPServerDisconnected))
        assert send_break_glass_mail() == 0
    sweep_access_requests()
    assert [message.to for message in mail.outbox] == [["ada@example.com"], ["x@example.com"]]
    assert "payroll is blocked" in mail.outbox[0].body and f"{LIST}/{use.pk}/" in mail.outbox[0].body
    sweep_access_requests()
    assert len(mail.outbox) == 2
    settings.EMAIL_HOST = ""
    assert send_break_glass_mail() == 0


def test_without_the_setting_pages_run_no_further_query(browse, settings, django_assert_max_num_queries):
    ada = browse("ada")
    ada.get(LIST)
    settings.BREAK_GLASS_ACCOUNTS = []
    with django_assert_max_num_queries(4):
        ada.get(LIST)
    assert SETUP.user_id is None and not has_break_glass_access(1)


def test_the_attack_an_administrator_uses_the_emergency_account_of_another_one(bob, settings, cast):
    """Any administrator could set the password of an account in the setting, and act alone with it."""
    ada = Author("ada", reason="x", user_id=cast["ada"].pk)
    renew_user_password(author=ada, name="bob")
    with pytest.raises(BreakGlassError, match="`ada` got control over this account"):
        start_break_glass(author=bob)
    # nor a new account of this name
    settings.BREAK_GLASS_ACCOUNTS = ["emergency"]
    add_user("emergency", role=Role.ADMINISTRATOR, author=ada)
    emergency = Author("emergency", reason="x", user_id=User.objects.get(username="emergency").pk)
    with pytest.raises(BreakGlassError, match="got control over this account"):
        start_break_glass(author=emergency)
    # nor with a link
    JournalLine.objects.update(at=timezone.now() - timedelta(hours=97))
    begin_invitation(author=ada, name="emergency")
    with pytest.raises(BreakGlassError, match="got control over this account"):
        start_break_glass(author=emergency)
    JournalLine.objects.update(at=timezone.now() - timedelta(hours=97))
    assert start_break_glass(author=emergency).is_active


def test_the_attack_an_account_with_a_similar_name_sets_the_password_of_an_emergency_account(bob):
    other = User.objects.create(username="bob (account)", role=Role.ADMINISTRATOR, is_principal=False)
    renew_user_password(author=Author(other.username, reason="x", user_id=other.pk), name="bob")
    with pytest.raises(BreakGlassError, match="got control over this account"):
        start_break_glass(author=bob)


def test_a_password_that_a_command_sets_does_not_prevent_an_emergency(bob, monkeypatch):
    monkeypatch.setattr("getpass.getpass", lambda prompt="": "an emergency password")
    call_command("changepassword", "bob")
    assert start_break_glass(author=bob).is_active


@pytest.mark.parametrize("loss", ["role", "active", "setting"])
def test_the_access_ends_with_the_role_and_does_not_return(loss, bob, settings):
    start_break_glass(author=bob)
    assert has_break_glass_access(bob.user_id)
    match loss:
        case "role":
            set_user_role(author=SETUP, name="bob", role=Role.ORDINARY)
            with pytest.raises(GrantError):
                grant_admin(bob)
            set_user_role(author=SETUP, name="bob", role=Role.ADMINISTRATOR)
        case "active":
            set_user_active("bob", active=False)
            set_user_active("bob", active=True)
        case "setting":
            settings.BREAK_GLASS_ACCOUNTS = ["dee"]
    assert not has_break_glass_access(bob.user_id)
    with pytest.raises(SecondPersonRequired):
        grant_admin(bob)


def test_the_access_is_of_one_account_and_one_session(bob, cast):
    """Neither another administrator, nor a token of the account, nor a review of the own use profits."""
    use = start_break_glass(author=bob)
    secret = create_token(author=bob, owner="bob", name="t", scopes=["administer"], days=1)
    of_token = Author("bob", user_id=bob.user_id, token=secret.token.pk, issuer="bob")
    for author in (Author("ada", user_id=cast["ada"].pk), of_token):
        with pytest.raises(SecondPersonRequired):
            grant_admin(author)
    with pytest.raises(BreakGlassError, match="only an account in BREAK_GLASS_ACCOUNTS can"):
        start_break_glass(author=of_token)
    plan = create_plan_from_changes(grant=[("user:dee", ORDERS, "ADMIN")], author=bob)
    assert apply_plan(plan, author=bob).state == "applied"
    end_break_glass(author=Author("ada", user_id=cast["ada"].pk), number=use.pk)
    with pytest.raises(SecondPersonRequired):
        add_grant("user:out", ORDERS, Privilege.ADMIN, author=bob)


@pytest.mark.django_db(transaction=True)
def test_two_starts_at_the_same_moment_are_one_use(bob):
    (refusal,) = in_threads(*[lambda: start_break_glass(author=bob)] * 2)
    assert isinstance(refusal, BreakGlassError) and BreakGlassUse.objects.count() == 1
