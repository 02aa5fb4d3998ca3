"""Invitations: a link sets a first password once, only for the invited user, and only people with the right make links."""

import re

import pytest
from django.contrib.auth.tokens import default_token_generator
from django.core import mail
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from authzconsole.common.invitations import invite
from entities.address import parse_address
from grants.errors import NotAdministrator, PrincipalError
from grants.journal import Author
from grants.models import JournalLine, User
from grants.principals.services import accept_invitation, open_invitations, set_user_role
from grants.stewards import add_steward
from tests.support.authors import account, author_named
from tests.support.cast import create_role_accounts
from tests.support.changes import add_user, set_user_active
from tests.support.pages import page_html, text_of

pytestmark = pytest.mark.usefixtures("cast")
PASSWORD = "correct horse battery staple"
LINK = re.compile(r"http://127\.0\.0\.1:8000(/invitation/[\w-]+/[\w-]+)")


def link_of(name: str, by: str = "ada") -> str:
    return LINK.fullmatch(invite(author=author_named(by), name=name).url)[1]


def use(browser, link: str, password: str = PASSWORD):
    """Open a link, and choose the password if it works."""
    page = browser.get(link, follow=True)
    if "Set password" not in page_html(page):
        return page
    url = page.request["PATH_INFO"]
    assert link.rpartition("/")[2] not in page_html(page) + url, "the token is not in the page or its URL"
    return browser.post(url, {"new_password1": password, "new_password2": password})


@pytest.fixture
def new(cast) -> str:
    add_user("new")
    return "new"


def test_an_invited_user_chooses_a_password_and_signs_in(browse, new):
    link = link_of(new)
    assert use(browse(), link).status_code == 303
    user = account(new)
    assert user.check_password(PASSWORD) and not user.must_change_password
    lines = JournalLine.objects.filter(principal="user:new").order_by("revision")
    assert [(line.action, line.actor) for line in lines][1:] == [
        ("user-invite", "ada"),
        ("password-set", "new"),
    ]
    assert browse().post("/sign-in", {"username": new, "password": PASSWORD}).status_code in (302, 303)


def test_a_link_works_once_and_only_the_newest_one_works(browse, new):
    first = link_of(new)
    second = link_of(new)
    assert "This link does not work" in text_of(use(browse(), first))
    opened = browse()
    opened.get(second, follow=True)
    assert use(browse(), second).status_code == 303
    other = "another long password 9"
    assert "This link does not work" in text_of(use(browse(), second, other))
    # a browser that opened the link before it was used
    page = opened.post(
        f"{second.rpartition('/')[0]}/choose-password",
        {"new_password1": other, "new_password2": other},
        follow=True,
    )
    assert "This link does not work" in text_of(page)
    assert account(new).check_password(PASSWORD)


def test_two_uses_at_the_same_time_set_one_password(new):
    link_of(new)
    first, second = account(new), account(new)
    author = Author(new, user_id=first.pk)
    assert accept_invitation(author=author, user=first, password=PASSWORD)
    assert not accept_invitation(author=author, user=second, password="another long password 9")
    assert account(new).check_password(PASSWORD)


def test_an_old_link_a_token_of_another_kind_and_the_token_of_another_user_do_not_work(browse, new, settings):
    add_user("other")
    link, other = link_of(new), link_of("other")
    uid = urlsafe_base64_encode(force_bytes(account(new).pk))
    stranger = urlsafe_base64_encode(force_bytes(account("ada").pk))
    for attack in (
        f"/invitation/{uid}/{other.rpartition('/')[2]}",
        f"/invitation/{uid}/{default_token_generator.make_token(account(new))}",
        f"/invitation/{stranger}/{link.rpartition('/')[2]}",
        f"/invitation/{uid}/choose-password",
        f"/invitation/{uid}/x",
        "/invitation/x/x",
    ):
        assert "This link does not work" in text_of(use(browse(), attack)), attack
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "This link does not work" in text_of(use(browse(), link))
    assert not account(new).has_usable_password()


def test_a_link_ends_when_the_account_may_not_sign_in_with_it(browse, new, settings):
    link = link_of(new)
    set_user_active(new, active=False)
    assert "This link does not work" in text_of(use(browse(), link))
    set_user_active(new, active=True)
    settings.LOCAL_SIGN_IN = "break-glass"
    assert "This link does not work" in text_of(use(browse(), link))
    with pytest.raises(PrincipalError, match="provider"):
        link_of(new)


def test_a_link_ends_when_the_account_can_do_more_than_who_made_it_may_manage(browse, new):
    create_role_accounts()
    link = link_of(new, by="sec")
    verified = account(new)
    set_user_role(author=author_named("ada"), name=new, role="administrator")
    assert "This link does not work" in text_of(use(browse(), link))
    # nor one that was verified just before
    assert not accept_invitation(author=author_named(new), user=verified, password=PASSWORD)
    add_user("heir")
    link = link_of("heir", by="sec")
    assert open_invitations().filter(principal="user:heir").exists()
    add_steward(author=author_named("ada"), namespace=parse_address("namespace:sales"), principal="user:heir")
    assert "This link does not work" in text_of(use(browse(), link))
    assert not open_invitations().exists()
    assert not account(new).has_usable_password() and not account("heir").has_usable_password()
    assert use(browse(), link_of(new)).status_code == 303


def test_only_accounts_without_a_password_are_invited_by_those_who_manage_them(cast, new):
    create_role_accounts()
    for name, message in (("dee", "has a password already"), ("ina", "inactive")):
        with pytest.raises(PrincipalError, match=message):
            link_of(name)
    add_user("robot", is_service=True)
    with pytest.raises(PrincipalError, match="service account"):
        link_of("robot")
    add_user("boss", role="administrator")
    with pytest.raises(NotAdministrator):
        link_of("boss", by="sec")
    for name in ("ned", "aud"):
        with pytest.raises(NotAdministrator):
            link_of(new, by=name)
    assert link_of(new, by="sec")


def test_several_users_are_added_and_invited_at_once_or_none(browse, new):
    ada = browse("ada")
    refused = ada.post("/accounts/invite", {"accounts": "alba, alba@example.com\ndee\n"})
    assert refused.status_code == 400 and "line 2" in text_of(refused).lower()
    assert "alba@example.com" in page_html(refused) and not User.objects.filter(username="alba").exists()
    lines = "alba, alba@example.com, Alba Ruiz\n\nbert\nnew\n"
    page = ada.post("/accounts/invite", {"accounts": lines})
    assert page.status_code == 200 and "no-store" in page.headers["Cache-Control"]
    links = LINK.findall(page_html(page))
    assert len(set(links)) == 3 and account("alba").get_full_name() == "Alba Ruiz"
    for name, link in zip(("alba", "bert", "new"), dict.fromkeys(links), strict=True):
        assert use(browse(), link).status_code == 303 and account(name).check_password(PASSWORD)


@pytest.mark.parametrize(
    ("accounts", "message"),
    [
        ("", "at least one user"),
        ("a, b, c, d", "Line 1"),
        ("zoe\nzoe", "repeated"),
        ("\n".join(f"u{number}" for number in range(101)), "100 are allowed"),
        ("new, new@example.com", "exists already"),
        ("z" * 151, "line 1"),
    ],
)
def test_bad_lines_are_refused_and_kept(browse, new, accounts, message):
    before = User.objects.count()
    page = browse("ada").post("/accounts/invite", {"accounts": accounts})
    assert page.status_code == 400 and message.lower() in text_of(page).lower()
    assert User.objects.count() == before


def test_links_are_sent_by_e_mail_and_then_not_shown(browse, new, settings):
    settings.EMAIL_HOST = "mail.example.com"
    page = browse("ada").post("/accounts/invite", {"accounts": "alba, alba@example.com\nnew"})
    (message,) = mail.outbox
    assert message.to == ["alba@example.com"] and "sent to alba@example.com" in text_of(page)
    link = LINK.search(message.body)[1]
    assert link not in page_html(page) and len(set(LINK.findall(page_html(page)))) == 1
    assert use(browse(), link).status_code == 303 and account("alba").check_password(PASSWORD)


def test_the_log_does_not_contain_the_token(browse, new, caplog):
    link = link_of(new)
    caplog.set_level("INFO")
    use(browse(), link)
    assert "/invitation/..." in caplog.text and link.rpartition("/")[2] not in caplog.text
