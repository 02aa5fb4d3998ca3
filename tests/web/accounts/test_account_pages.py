"""The pages of accounts and tokens: access, changes, secrets and query counts."""

import re
from html import unescape

import pytest
from django.test import Client

from authzconsole.common.tokens import TokenRefused, create_token, verify_token
from authzconsole.models import ApiToken
from grants.models import JournalLine, User
from tests.support.authors import COMMAND, database_state
from tests.support.pages import page_html, text_of, with_effect


@pytest.fixture
def issued_token(cast):
    return create_token(author=COMMAND, owner="dee", name="a job", scopes=["read"], days=9)


def test_a_token_is_shown_once_and_never_again(browse):
    client = browse("ada")
    User.objects.filter(username="dee").update(is_service=True)
    form = {
        "owner": "user:dee",
        "name": "nightly job",
        "scope": ["decide", "read"],
        "days": "30",
        "reason": "for the job",
    }
    response = client.post("/accounts/tokens/new", form)
    secret = re.search(r"azc_[\w-]{40,}", page_html(response))[0]
    assert verify_token(secret).scopes == {"decide", "read"} and "no-store" in response["Cache-Control"]
    assert JournalLine.objects.get(action="token-add").reason == "for the job"
    assert f"TOKEN={secret}" in text_of(response) and "/api/v1/entities?limit=5" in text_of(response)
    for url in ("/accounts/tokens/", "/people/user:dee", "/accounts/tokens/new"):
        text = client.html(url)
        assert "azc_" not in text and ("nightly job" in text or url.endswith("new"))


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"owner": "nobody"}, "is not an active account"),
        ({"scope": []}, "A token needs one or more of the scopes"),
        ({"days": "soon"}, "<code>soon</code> is not a whole number"),
        ({"days": "0"}, "The lifetime of a token must be 1 to"),
        ({"name": " "}, "The name of a token must have 1 to"),
        ({"scope": ["administer"]}, "is not an administrator of this console"),
    ],
)
def test_an_invalid_token_is_explained_and_keeps_the_input(form, fault, browse):
    client = browse("ada")
    User.objects.filter(username="dee").update(is_service=True)
    response = client.post(
        "/accounts/tokens/new",
        {"owner": "dee", "name": "kept", "scope": ["read"], "days": "9", "reason": "kept too"} | form,
    )
    assert response.status_code == 400 and fault in page_html(response).replace("&#x27;", "'")
    assert "kept too" in page_html(response) and not ApiToken.objects.exists()


def test_a_service_account_is_added_and_has_no_password_form(browse):
    client = browse("ada")
    client.post("/people/add", {"type": "account", "name": "robot", "role": "auditor", "is_service": "yes"})
    assert User.objects.get(username="robot").is_service
    assert JournalLine.objects.latest("revision").detail == "role: auditor, service account"
    text = client.html("/people/user:robot")
    assert "A service account uses API tokens" in text and "/accounts/tokens/new?owner=robot" in text
    assert client.post("/accounts/password/user:robot").status_code == 400
    assert "/accounts/tokens/new?owner=dee" not in client.html("/people/user:dee")


def test_a_token_is_revoked_after_confirmation(browse, issued_token, htmx):
    client, url = browse("ada"), f"/accounts/tokens/{issued_token.token.pk}/revoke"
    assert "<html" not in client.html(url, headers=htmx("dialog"))
    assert verify_token(issued_token.secret)
    assert client.post(url, {"reason": "leaked"})["Location"] == "/accounts/tokens/"
    with pytest.raises(TokenRefused):
        verify_token(issued_token.secret)
    assert JournalLine.objects.get(action="token-revoke").reason == "leaked"
    totals = [
        len(client.get(f"/accounts/tokens/?state={state}").context["page"].rows)
        for state in ("good", "expired", "revoked")
    ]
    assert totals == [0, 0, 1]


def test_role_email_and_activity_changes_are_journalled(browse):
    client, url = browse("ada"), "/accounts/change/user:dee"
    for form in (
        {"change": "role", "role": "auditor"},
        {"change": "email", "email": "d@example.com"},
        {"change": "activity", "active": "no"},
    ):
        assert client.post(url, form | {"reason": "moved"})["Location"] == "/accounts/user:dee"
    dee = User.objects.get(username="dee")
    assert (dee.role, dee.email, dee.is_active) == ("auditor", "d@example.com", False)
    assert list(JournalLine.objects.filter(reason="moved").values_list("action", flat=True)) == [
        "role-set",
        "user-change",
        "user-deactivate",
    ]


def test_the_last_administrator_cannot_lose_the_role_or_be_deactivated(browse):
    for form in ({"change": "role", "role": "ordinary"}, {"change": "activity", "active": "no"}):
        response = browse("ada").post("/accounts/change/user:ada", form)
        assert response.status_code == 400 and "only active administrator" in page_html(response)
    assert (
        browse("ada").post("/accounts/change/user:dee", {"change": "role", "role": "king"}).status_code == 400
    )


def test_a_new_password_is_shown_once_works_and_ends_sessions(browse):
    session, client = browse("dee"), browse("ada")
    page = client.post("/accounts/password/user:dee", {"reason": "forgotten"})
    password = page.context["password"]
    assert password in page_html(page) and "no-store" in page["Cache-Control"]
    assert password not in client.html("/people/user:dee")
    assert session.get("/").status_code == 302 and Client().login(username="dee", password=password)
    line = JournalLine.objects.get(action="password-set")
    assert (line.principal, line.reason, password in line.detail) == ("user:dee", "forgotten", False)


def test_a_console_only_account_is_not_a_principal(browse):
    response = browse("ada").post("/people/add", {"type": "account", "name": "eve", "role": "auditor"})
    assert response["Location"] == "/accounts/user:eve"
    assert User.objects.get(username="eve").is_principal is False


def test_the_old_addresses_lead_to_the_users_where_auditors_change_nothing(browse):
    client = browse("aud")
    assert "/accounts/change/" not in client.html("/people/user:dee")
    assert client.get("/accounts/?role=auditor&find=a")["Location"] == "/people/?find=a&role=auditor"
    assert client.get("/accounts/user:dee")["Location"] == "/people/user:dee#account"


def test_the_full_name_is_edited_shown_and_found(browse):
    client, url = browse("ada"), "/accounts/change/user:dee"
    assert client.post(url, {"change": "full-name", "full_name": " Dorothea  van Dee "}).status_code == 303
    assert User.objects.get(username="dee").get_full_name() == "Dorothea van Dee"
    page = client.html("/people/user:dee")
    assert "Dorothea van Dee." in page and 'value="Dorothea van Dee"' in page
    assert [row.username for row in client.get("/people/?find=dorothea dee").context["page"].rows] == ["dee"]
    refused = client.post(url, {"change": "full-name", "full_name": "Dee\u202e"})
    assert refused.status_code == 400 and "invisible character" in page_html(refused)
    assert "The full name changes from Dorothea van Dee to empty." in client.html(f"{url}?change=full-name")


@pytest.mark.parametrize(
    "url",
    [
        "/accounts/",
        "/accounts/user:dee",
        "/accounts/tokens/",
        "/accounts/change/user:ned?change=activity&active=no",
    ],
)
def test_the_number_of_queries_does_not_grow_with_the_data(
    url, browse, issued_token, django_assert_max_num_queries
):
    for number in range(30):
        User.objects.create(username=f"more{number}")
        create_token(author=COMMAND, owner="dee", name=f"job {number}", scopes=["read"], days=9)
    client = browse("ada")
    client.get(url)
    with django_assert_max_num_queries(33 if "change" in url else 4):
        client.get(url)


def forecast_text(client, url: str) -> str:
    """Return the HTML of a confirmation page, which must change nothing."""
    before = database_state()
    text = unescape(page_html(client.get(url)))
    assert database_state() == before and 'name="reason"' in text
    return text


def test_deactivation_shows_its_effects_before_it_happens(browse):
    client, url = browse("ada"), "/accounts/change/user:ned"
    browse("ned")
    create_token(author=COMMAND, owner="ned", name="a job", scopes=["read"], days=9)
    text = forecast_text(client, with_effect(f"{url}?change=activity&active=no"))
    for phrase in (
        "Their 6 direct grants and 0 memberships remain, and take effect again when reactivated.",
        "1 session ends.",
        "1 API token is revoked.",
        "6 entities would have fewer than two ADMIN holders",
        ": 6 with none.",
        'href="/entities/namespace:sales"',
        'href="/people/leaving/user:ned">and 1 more',
    ):
        assert phrase in text
    form = form_fields(text)
    effect = {name: form.pop(name) for name in ("effect", "effect_of")}
    # the button for browsers without scripts
    assert form.pop("preview") == "yes"
    assert form == {"change": "activity", "active": "no", "reason": ""} and "Removes " in text
    form |= effect
    client.post(url, form | {"reason": "left"})
    assert "Their 6 direct grants and 0 memberships take effect again." in forecast_text(
        client, f"{url}?change=activity&active=yes"
    )


def form_fields(html: str) -> dict[str, str]:
    """Return the values that the form of a confirmation page sends."""
    form = html[html.index('class="form"') :]
    fields = dict(re.findall(r'name="(\w+)"(?: value="([^"]*)")?', form))
    return {name: value for name, value in fields.items() if name != "csrfmiddlewaretoken"}


def test_a_role_change_shows_its_effects_and_the_remaining_administrators(browse, cast):
    client = browse("ada")
    text = forecast_text(client, "/accounts/change/user:dee?change=role&role=auditor")
    assert (
        "The role changes from User to Auditor. Auditors see everything in this console and cannot change anything."
        in text
    )
    assert "Set role to Auditor" in text
    assert "the only active console administrator" in forecast_text(
        client, "/accounts/change/user:ada?change=role&role=ordinary"
    )
    User.objects.filter(username="out").update(role="administrator")
    create_token(author=COMMAND, owner="ada", name="a job", scopes=["administer"], days=9)
    text = forecast_text(client, "/accounts/change/user:ada?change=role&role=ordinary")
    assert (
        "1 other active console administrator remains." in text
        and "1 API token can no longer change anything." in text
    )
    assert "already has the role User. Nothing changes." in forecast_text(
        client, "/accounts/change/user:dee?change=role&role=ordinary"
    )


def test_replacing_a_password_shows_how_many_sessions_end(browse):
    client = browse("ada")
    assert "0 sessions end." in forecast_text(client, "/accounts/password/user:dee")
    browse("dee"), browse("dee")
    assert "2 sessions end." in forecast_text(client, "/accounts/password/user:dee")
    client.post("/accounts/password/user:dee")
    assert "0 sessions end." in forecast_text(client, "/accounts/password/user:dee")


def test_a_refused_email_and_its_reason_are_kept(browse):
    response = browse("ada").post(
        "/accounts/change/user:dee", {"change": "email", "email": "dee@", "reason": "she moved"}
    )
    assert response.status_code == 400
    assert 'value="dee@"' in page_html(response) and 'value="she moved"' in page_html(response)


@pytest.mark.parametrize("email", ["nobody", "a@b", "two words@example.com"])
def test_an_invalid_email_address_is_refused(email, browse):
    before = database_state()
    for url, form in (
        ("/accounts/change/user:dee", {"change": "email"}),
        ("/people/add", {"type": "user", "name": "eve"}),
    ):
        response = browse("ada").post(url, form | {"email": email})
        assert response.status_code == 400
        assert "is not an email address. Enter one such as name@example.com" in page_html(response)
    assert database_state() == before
