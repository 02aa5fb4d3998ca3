"""Sign-in through OpenID Connect, against a running provider."""

import json
import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured

from authzconsole.ops.address import free_port
from authzconsole.settings.sign_in import oidc_providers
from grants.journal import current_revision
from grants.models import JournalLine, Role, User
from tests.support.authors import database_state
from tests.support.browsers import account_name
from tests.support.cast import PASSWORD
from tests.support.oidc_provider import configure_oidc
from tests.support.pages import page_html

# the running provider uses deprecated functions of its libraries
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:authlib", "ignore:get_jwt_config:DeprecationWarning"
)

ROLE_OPTIONS = {"role_claim": "groups", "roles": {"platform-admins": "administrator", "audit": "auditor"}}
GROUP_OPTIONS = {"group_claim": "groups", "groups": {"ops": "operators", "data": "data"}}


def lines_since(revision: int) -> list[tuple]:
    lines = JournalLine.objects.filter(revision__gt=revision).order_by("revision")
    return [(line.actor, line.action, line.principal, line.detail) for line in lines]


def test_the_sign_in_page_has_a_link_for_each_provider_and_keeps_the_form(browse, oidc):
    text = browse().html("/sign-in?next=/ask")
    assert (
        '<a class="button" href="/sign-in/corp?next=%2Fask">Sign in with Corp</a>' in text
        and 'id="password"' in text
    )


def test_without_providers_nothing_changes(browse):
    assert "Sign in with" not in browse().html("/sign-in")
    assert (
        browse().get("/sign-in/corp").status_code == browse().get("/sign-in/corp/callback").status_code == 404
    )


def test_a_sign_in_uses_pkce_state_and_nonce_and_continues_to_the_requested_page(browse, oidc):
    # such as a user of an imported tenant
    User.objects.filter(username="ned").update(password=make_password(None))
    oidc.configure(link_existing="without-password")
    client = browse()
    url = oidc.callback_url(client, "s-ned", path="/sign-in/corp?next=/search?q=orders")
    response = client.get(url)
    assert (response.status_code, response["Location"], account_name(client)) == (
        302,
        "/search?q=orders",
        "ned",
    )
    token_request = next(form for path, form in oidc.requests if path == "/oauth2/token")
    assert len(token_request["code_verifier"]) >= 43 and token_request["client_secret"] == "s3cret"
    question = parse_qs(urlsplit(browse().get("/sign-in/corp")["Location"]).query)
    assert question["code_challenge_method"] == ["S256"] and question["nonce"] and question["state"]
    assert set(question["scope"][0].split()) == {"openid", "profile", "email"}


@pytest.mark.parametrize(
    "next_url", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"]
)
def test_a_sign_in_never_leads_to_another_host(browse, oidc, next_url):
    response = oidc.sign_in(browse(), "s-ned", path=f"/sign-in/corp?next={next_url}")
    assert response["Location"] == "/"


def test_a_linked_account_is_found_by_its_subject_not_by_its_name(browse, oidc):
    client = browse()
    oidc.sign_in(browse(), "s-ned")
    oidc.sign_in(client, "s-ned", {"preferred_username": "ada"})
    assert account_name(client) == "ned"
    assert oidc.sign_in(browse(), "s-other", {"preferred_username": "ned"}).status_code == 403


@pytest.mark.parametrize("link_existing", ["never", "without-password"])
def test_an_identity_cannot_take_over_an_account_by_sending_its_name(browse, oidc, link_existing):
    oidc.configure(link_existing=link_existing, unknown_users="create", **ROLE_OPTIONS)
    before, client = database_state(), browse()
    response = oidc.sign_in(client, "s-mallory", {"preferred_username": "ada", "groups": ["platform-admins"]})
    assert response.status_code == 403 and account_name(client) == ""
    assert "is not linked to your identity at Corp" in page_html(response)
    assert database_state() == before and not SocialAccount.objects.exists()


@pytest.mark.parametrize("is_verified", [True, False])
@pytest.mark.parametrize("link_existing", ["never", "always"])
@pytest.mark.parametrize("unknown_users", ["reject", "create"])
def test_the_attack_the_e_mail_of_an_identity_takes_over_no_account(
    browse, oidc, cast, is_verified, link_existing, unknown_users
):
    """Anybody can enter the e-mail address of another person at some providers."""
    User.objects.filter(username="ada").update(email="ada@corp.example")
    oidc.configure(link_existing=link_existing, unknown_users=unknown_users)
    client = browse()
    claims = {"preferred_username": "mallory", "email": "ada@corp.example", "email_verified": is_verified}
    oidc.sign_in(client, "s-mallory", claims)
    assert account_name(client) in ("", "mallory")
    assert not SocialAccount.objects.filter(user__username="ada").exists()


def test_the_attack_the_code_of_one_sign_in_does_not_complete_another(browse, oidc):
    """A stolen code is bound to the browser by PKCE and the nonce, and works once."""
    victim, thief = browse(), browse()
    stolen = parse_qs(urlsplit(oidc.callback_url(victim, "s-ned")).query)["code"][0]
    own = oidc.callback_url(thief, "s-dee")
    code = parse_qs(urlsplit(own).query)["code"][0]
    assert thief.get(own.replace(code, stolen)).status_code == 502 and account_name(thief) == ""


def test_linking_leaves_a_journal_line_of_the_sign_in_service(browse, oidc):
    revision = current_revision()
    oidc.sign_in(browse(), "s-ned")
    assert lines_since(revision) == [
        ("sign-in", "identity-link", "user:ned", "provider: corp, subject: s-ned")
    ]
    oidc.sign_in(browse(), "s-ned")
    assert current_revision() == revision + 1


def test_a_created_account_is_no_principal_and_needs_no_email(browse, oidc):
    oidc.configure(unknown_users="create", **ROLE_OPTIONS | GROUP_OPTIONS)
    revision, client = current_revision(), browse()
    response = oidc.sign_in(client, "s-new", {"preferred_username": "newcomer", "groups": ["audit", "ops"]})
    user = User.objects.get(username="newcomer")
    assert response.status_code == 302 and account_name(client) == "newcomer"
    assert (user.role, user.is_principal, user.email, user.has_usable_password()) == (
        Role.AUDITOR,
        False,
        "",
        False,
    )
    assert not user.groups.exists()
    assert [action for _, action, *_ in lines_since(revision)] == ["user-add", "identity-link"]
    assert client.get("/journal/").status_code == 200


def test_only_a_verified_email_is_stored(browse, oidc):
    oidc.configure(unknown_users="create")
    email = "first@corp.example"
    for name, is_verified, stored in (("first", True, email), ("second", False, "")):
        claims = {"preferred_username": name, "email": email, "email_verified": is_verified}
        oidc.sign_in(browse(), f"s-{name}", claims)
        assert User.objects.get(username=name).email == stored


@pytest.mark.parametrize(
    ("unknown_users", "name", "sentence"),
    [
        ("reject", "newcomer", "There is no account `newcomer`"),
        ("create", None, "did not send a valid user name"),
        ("create", "", "did not send a valid user name"),
        ("create", "a\x00b", "did not send a valid user name"),
        ("create", "x" * 151, "did not send a valid user name"),
        ("create", {"a": 1}, "did not send a valid user name"),
        ("create", "Ned", "differs only in upper and lower case"),
    ],
)
def test_an_unknown_invalid_or_ambiguous_name_creates_no_account(browse, oidc, unknown_users, name, sentence):
    oidc.configure(unknown_users=unknown_users)
    before, client = database_state(), browse()
    response = oidc.sign_in(client, "s-new", {} if name is None else {"preferred_username": name})
    assert response.status_code == 403 and sentence in response.content.decode()
    assert database_state() == before and account_name(client) == ""


def test_role_and_groups_follow_the_claims_at_each_sign_in(browse, oidc, cast):
    Group.objects.create(name="data")
    oidc.configure(**ROLE_OPTIONS | GROUP_OPTIONS)
    revision = current_revision()
    oidc.sign_in(
        browse(),
        "s-grp",
        {"preferred_username": "grp", "groups": ["audit", "platform-admins", "data", "else"]},
    )
    assert User.objects.get(username="grp").role == Role.ADMINISTRATOR
    oidc.sign_in(browse(), "s-grp")
    assert User.objects.get(username="grp").role == Role.ORDINARY
    assert [line for line in lines_since(revision) if line[1] != "identity-link"] == [
        ("sign-in", "role-set", "user:grp", "from ordinary to administrator"),
        ("sign-in", "member-add", "user:grp", "group:data"),
        ("sign-in", "member-remove", "user:grp", "group:operators"),
        ("sign-in", "role-set", "user:grp", "from administrator to ordinary"),
        ("sign-in", "member-remove", "user:grp", "group:data"),
    ]


def test_roles_are_read_from_inside_an_object(browse, oidc, cast):
    oidc.configure(role_claim="realm_access.roles", roles={"audit": "auditor"})
    oidc.sign_in(browse(), "s-dee", {"preferred_username": "dee", "realm_access": {"roles": ["audit"]}})
    assert User.objects.get(username="dee").role == Role.AUDITOR


def test_the_last_administrator_who_lost_the_role_may_not_sign_in(browse, oidc):
    oidc.configure(**ROLE_OPTIONS)
    client = browse()
    response = oidc.sign_in(client, "s-ada", {"preferred_username": "ada", "groups": []})
    assert (
        response.status_code == 403
        and "the only active administrator" in page_html(response)
        and account_name(client) == ""
    )


def test_groups_that_no_mapping_names_are_kept_and_missing_ones_are_skipped(browse, oidc):
    oidc.configure(group_claim="groups", groups={"x": "no-such-group"})
    assert oidc.sign_in(browse(), "s-grp", {"preferred_username": "grp", "groups": ["x"]}).status_code == 302
    assert list(User.objects.get(username="grp").groups.values_list("name", flat=True)) == ["operators"]


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_service": True}])
def test_inactive_and_service_accounts_cannot_sign_in(browse, oidc, change):
    oidc.sign_in(browse(), "s-ned")
    User.objects.filter(username="ned").update(**change)
    client = browse()
    assert oidc.sign_in(client, "s-ned").status_code == 403
    assert account_name(client) == ""


def test_a_provider_that_is_down_gets_a_page_with_a_retry_and_passwords_still_work(browse, oidc, settings):
    client = browse()
    url = oidc.callback_url(client, "s-ned")
    configure_oidc(settings, f"http://127.0.0.1:{free_port()}")
    assert client.get(url).status_code == 502
    response = client.get("/sign-in/corp")
    assert response.status_code == 502 and 'href="/sign-in/corp">Try again with Corp</a>' in page_html(
        response
    )
    assert client.post("/sign-in", {"username": "ned", "password": PASSWORD}).status_code == 302


def test_denied_consent_is_explained(browse, oidc):
    client = browse()
    response = oidc.sign_in(client, "s-ned", {}, deny=True)
    assert (
        response.status_code == 403
        and "cancelled or not permitted" in page_html(response)
        and account_name(client) == ""
    )


def test_a_state_is_used_once_and_only_in_its_own_browser(browse, oidc):
    client = browse()
    url = oidc.callback_url(client, "s-ned")
    victim = browse()
    assert victim.get(url).status_code == 400 and account_name(victim) == ""
    assert client.get(url).status_code == 302
    client.post("/sign-out")
    assert client.get(url).status_code == 400 and account_name(client) == ""
    assert browse().get("/sign-in/corp/callback?code=x").status_code == 400
    assert browse().get("/sign-in/corp/callback?error=access_denied").status_code == 400


def _set(**values):
    return lambda claims: claims.update(values)


LIES = {
    "issuer of the token": _set(iss="https://elsewhere.example"),
    "another client": _set(aud="another"),
    "another party": _set(aud=["console", "another"], azp="another"),
    "another nonce": _set(nonce="that of an earlier sign-in"),
    "no nonce": lambda claims: claims.pop("nonce") and None,
    "expired": _set(exp=1_000_000_000),
    "no expiry": lambda claims: claims.pop("exp") and None,
    "no subject": lambda claims: claims.pop("sub") and None,
    "a number as subject": _set(sub=7),
    "not signed": lambda claims: {"key": None, "algorithm": "none"},
    "signed with the client secret": lambda claims: {"key": "s3cret" * 8, "algorithm": "HS256"},
    "another user than the userinfo": _set(sub="s-ada"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_id_token_is_refused(browse, oidc, lie):
    oidc.change_token = LIES[lie]
    client = browse()
    response = oidc.sign_in(client, "s-ned")
    assert response.status_code == 502 and account_name(client) == "", response.content
    assert not SocialAccount.objects.exists()


def test_an_id_token_with_the_signature_of_another_key_is_refused(browse, oidc):
    from cryptography.hazmat.primitives.asymmetric import rsa

    oidc.change_token = lambda claims: {"key": rsa.generate_private_key(65537, 2048)}
    assert oidc.sign_in(browse(), "s-ned").status_code == 502


def test_a_provider_that_names_another_issuer_is_refused_before_and_after_the_redirect(browse, oidc):
    def lie(path, answer):
        if path.endswith("openid-configuration"):
            answer["issuer"] = "https://elsewhere.example"

    client = browse()
    url = oidc.callback_url(client, "s-ned")
    oidc.change_answer = lie
    assert client.get(url).status_code == 502
    response = browse().get("/sign-in/corp")
    assert response.status_code == 502 and "Corp names another issuer" in page_html(response)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/oauth2/token", {"access_token": None}),
        ("/oauth2/token", {"id_token": 7}),
        ("/oauth2/token", {"id_token": "x.y.z"}),
        ("/userinfo", {"sub": None}),
        ("/jwks", {"keys": []}),
        ("/jwks", {"keys": "none"}),
        ("/.well-known/openid-configuration", {"token_endpoint": "file:///etc/passwd"}),
    ],
)
def test_a_malformed_answer_gets_a_page(browse, oidc, path, answer):
    client = browse()
    url = oidc.callback_url(client, "s-ned")
    oidc.change_answer = lambda requested, value: value.update(answer) if requested == path else None
    assert client.get(url).status_code == 502 and account_name(client) == ""


def test_neither_tokens_nor_claims_are_stored(browse, oidc):
    oidc.configure(unknown_users="create")
    client = browse()
    oidc.sign_in(client, "s-new", {"preferred_username": "newcomer", "email": "n@corp.example"})
    assert not SocialToken.objects.exists() and SocialAccount.objects.get().extra_data == {}
    stored = json.dumps(dict(client.session.items()))
    assert "s3cret" not in stored and "n@corp.example" not in stored


def test_a_password_set_by_an_administrator_does_not_stop_a_sign_in_without_password(browse, oidc):
    User.objects.filter(username="ned").update(must_change_password=True)
    client = browse()
    oidc.sign_in(client, "s-ned")
    assert client.get("/").status_code == client.get("/api/v1/entities").status_code == 200
    assert client.post("/sign-out").status_code == 302
    client.post("/sign-in", {"username": "ned", "password": PASSWORD})
    assert client.get("/")["Location"].startswith("/password")


def test_user_input_reaches_neither_scope_nor_parameters_of_the_request_to_the_provider(browse, oidc):
    url = browse().get("/sign-in/corp?scope=offline_access&auth_params=prompt%3Dnone&process=connect")[
        "Location"
    ]
    assert "offline_access" not in url and "prompt" not in url


def test_the_account_page_of_allauth_have_no_url(browse):
    for path in (
        "/accounts/signup/",
        "/accounts/email/",
        "/accounts/password/reset/",
        "/accounts/social/connections/",
    ):
        assert browse("ned").get(path).status_code == 404


@pytest.fixture
def stale(browse, oidc):
    """The session of ada, who has no password and authenticated at the provider long ago."""
    User.objects.filter(username="ada").update(password=make_password(None))
    oidc.change_token = _set(auth_time=1_000_000_000)
    client = browse()
    oidc.sign_in(client, "s-ada")
    oidc.change_token = _set(auth_time=int(time.time()))
    return client


def link_of(page: str) -> str:
    """Return the URL to sign in again."""
    return re.search(r'href="(/sign-in/corp[^"]*)">Sign in again with Corp', page)[1].replace("&amp;", "&")


def test_a_sensitive_change_asks_to_sign_in_again_at_the_provider(stale, oidc):
    link = link_of(page_html(stale.post("/policies/core/activate")))
    question = parse_qs(urlsplit(stale.get(link)["Location"]).query)
    assert (question["prompt"], question["max_age"]) == (["login"], ["0"])
    assert oidc.sign_in(stale, "s-ada", path=link)["Location"] == "/policies/core/activate"
    # the view answers now: the form has no revision
    assert stale.post("/policies/core/activate").status_code == 409


def test_signing_in_again_for_a_change_returns_to_the_page_with_the_form(stale, oidc):
    """The URL of the change can accept only POST, and the provider returns with GET."""
    headers = {"Referer": "http://testserver/journal/webhooks/1/"}
    page = page_html(stale.post("/journal/webhooks/1/change", headers=headers))
    assert "return to the form and can repeat" in page and "continues with what you entered" not in page
    assert oidc.sign_in(stale, "s-ada", path=link_of(page))["Location"] == "/journal/webhooks/1/"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PROVIDERS", '{"corp": {"client_id": "x"}}', "the OIDC provider `corp` has no `issuer`"),
        (
            "PROVIDERS",
            '{"corp": {"issuer": "http://login.corp.example", "client_id": "x"}}',
            "must start with https://",
        ),
        (
            "PROVIDERS",
            '{"corp": {"issuer": "https://x", "client_id": "x", "secret": "x"}}',
            "`secret` is not an option",
        ),
        ("PROVIDERS", '{"Corp": {"issuer": "https://x", "client_id": "x"}}', "an id has lower-case letters"),
        ("PROVIDERS", '["corp"]', "OIDC_PROVIDERS must be one JSON object"),
        ("ROLES", '{"admins": "root"}', "`root` is not a console role"),
        ("ROLES", '{"admins": "auditor"}', "`role_claim` and `roles` belong together"),
        ("GROUPS", '{"ops": 7}', "`groups` must be a JSON object of texts"),
        ("UNKNOWN_USERS", "accept", "`unknown_users` must be one of: reject, create"),
        (
            "CLIENT_SECRET_FILE",
            "/nowhere/secret",
            "the OIDC provider `oidc`: `client_secret_file` cannot be read",
        ),
    ],
)
def test_invalid_options_are_refused(name, value, sentence):
    single = {} if name == "PROVIDERS" else {"OIDC_ISSUER": "https://x", "OIDC_CLIENT_ID": "x"}
    with pytest.raises(ImproperlyConfigured, match=re.escape(sentence)):
        oidc_providers(single | {f"OIDC_{name}": value})


def test_a_single_provider_is_described_by_variables(tmp_path):
    (tmp_path / "secret").write_text("s3cret\n")
    providers = oidc_providers(
        {
            "OIDC_ISSUER": "https://x",
            "OIDC_CLIENT_ID": "c",
            "OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
            "OIDC_ROLE_CLAIM": "g",
            "OIDC_ROLES": '{"a": "auditor"}',
            "OIDC_SCOPES": "openid groups",
        }
    )
    options = providers["oidc"]
    assert (options.client_secret, options.roles, options.scopes) == (
        "s3cret",
        {"a": "auditor"},
        ("openid", "groups"),
    )
    assert "s3cret" not in repr(options)
