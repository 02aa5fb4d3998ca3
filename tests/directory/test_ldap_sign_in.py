"""Sign-in with passwords of an LDAP directory, against a real slapd."""

import json

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from authzconsole.settings import user_directory
from authzconsole.settings.user_directory import ldap_options
from grants.journal import current_revision
from grants.models import JournalLine, Role, User
from tests.support.authors import database_state, lines_after
from tests.support.cast import PASSWORD as LOCAL_PASSWORD
from tests.support.cast import create_sample_users
from tests.support.slapd import PASSWORD, group_dn, user_dn

ROLES = json.dumps({group_dn("Admins").replace(",", " , "): "administrator", group_dn("auditors"): "auditor"})
GROUPS = json.dumps({group_dn("readers"): "operators"})


@pytest.fixture
def cast(db):
    """The sample users; only ada and aud have a password here."""
    cast = create_sample_users()
    for name in ("ned", "dee", "ina"):
        cast[name].set_unusable_password()
        cast[name].save()
    return cast


def sign_in(name, password=PASSWORD):
    client = Client()
    client.answer = client.post("/sign-in", {"username": name, "password": password})
    return client


def is_signed_in(client):
    return client.answer.status_code == 302 and client.get("/my-access").status_code == 200


def refusal(client):
    assert client.answer.status_code == 200 and client.get("/my-access").status_code == 302
    return client.answer.content.decode()


def test_the_directory_checks_the_password_of_accounts_without_one(cast, use_directory):
    use_directory()
    assert is_signed_in(sign_in("ned"))
    for name, password in (
        ("ned", "wrong"),
        ("ned", ""),
        ("*", PASSWORD),
        ("ne*", PASSWORD),
        ("ned)(uid=*", PASSWORD),
        ("nobody", PASSWORD),
        ("a\\00", PASSWORD),
        ("ned\0", PASSWORD),
    ):
        assert not is_signed_in(sign_in(name, password)), name


def test_signing_in_creates_no_principal_and_unknown_users_only_if_configured(cast, use_directory):
    use_directory()
    before = database_state()
    assert "Ask a console administrator" in refusal(sign_in("nina"))
    assert database_state() == before
    use_directory(LDAP_UNKNOWN_USERS="create", LDAP_GROUPS=GROUPS)
    # the directory ignores the case; the account has the name that the directory stores
    client = sign_in("NINA")
    assert is_signed_in(client)
    nina = User.objects.get(username__iexact="nina")
    assert (nina.username, nina.email, nina.role, nina.is_principal) == (
        "nina",
        "nina@example.org",
        Role.ORDINARY,
        False,
    )
    assert not nina.has_usable_password() and not nina.groups.exists()
    assert {line[:2] for line in lines_after(before[0])} == {
        ("user-add", "user:nina"),
        ("identity-link", "user:nina"),
    }
    User.objects.filter(pk=nina.pk).update(is_active=False)
    assert client.get("/my-access").status_code == 302 and not is_signed_in(sign_in("nina"))


def test_groups_decide_roles_and_memberships(cast, use_directory):
    use_directory(LDAP_ROLES=ROLES, LDAP_GROUPS=GROUPS)
    before = current_revision()
    assert is_signed_in(sign_in("ned")) and is_signed_in(sign_in("dee"))
    ned, dee = User.objects.get(username="ned"), User.objects.get(username="dee")
    assert (ned.role, dee.role) == (Role.ADMINISTRATOR, Role.AUDITOR)
    assert set(ned.groups.values_list("name", flat=True)) == {"operators"}
    assert [line[0] for line in lines_after(before)].count("role-set") == 2
    assert JournalLine.objects.latest("revision").actor == "sign-in"
    before = current_revision()
    assert is_signed_in(sign_in("ned")) and current_revision() == before


def test_nested_groups_count_only_if_configured(cast, use_directory):
    nested = json.dumps({group_dn("cycle"): "auditor"})
    use_directory(LDAP_ROLES=nested)
    assert is_signed_in(sign_in("ned")) and User.objects.get(username="ned").role == Role.ORDINARY
    use_directory(LDAP_ROLES=nested, LDAP_NESTED_GROUPS="1")
    assert is_signed_in(sign_in("ned")) and User.objects.get(username="ned").role == Role.AUDITOR


def test_the_last_administrator_keeps_the_role(cast, use_directory):
    User.objects.filter(username="ada").update(role=Role.ORDINARY)
    User.objects.filter(username="dee").update(role=Role.ADMINISTRATOR)
    use_directory(LDAP_ROLES=ROLES)
    sign_in("dee")
    assert User.objects.get(username="dee").role == Role.ADMINISTRATOR


def test_accounts_with_a_password_are_not_taken_over(cast, use_directory):
    use_directory(LDAP_UNKNOWN_USERS="create")
    assert not is_signed_in(sign_in("ada")) and not is_signed_in(sign_in("ADA"))
    assert is_signed_in(sign_in("ada", LOCAL_PASSWORD))
    User.objects.create(username="svc", is_service=True)
    for name in ("ina", "svc"):
        assert not is_signed_in(sign_in(name))
    assert not User.objects.filter(username="ADA").exists()


def test_the_password_confirms_the_identity_again(cast, use_directory, settings):
    use_directory()
    User.objects.filter(username="ned").update(role=Role.ADMINISTRATOR)
    client = sign_in("ned")
    page = client.get("/reauthenticate?next=/").content.decode()
    assert 'name="reauthentication_password"' in page
    form = {"reauthentication_method": "password", "reauthentication_password": "wrong", "next": "/"}
    assert "not your password" in client.post("/reauthenticate", form).content.decode()
    assert client.post("/reauthenticate", form | {"reauthentication_password": PASSWORD}).status_code == 303


def test_a_directory_that_is_down_or_refuses_the_console_is_named(cast, use_directory):
    use_directory(LDAP_URI="ldap://localhost:1")
    assert "directory does not answer" in refusal(sign_in("ned"))
    assert is_signed_in(sign_in("ada", LOCAL_PASSWORD))
    use_directory(LDAP_BIND_PASSWORD="wrong")
    assert "directory does not answer" in refusal(sign_in("ned"))


def test_a_certificate_that_is_not_trusted_is_refused(cast, use_directory, directory):
    use_directory(LDAP_CA_FILE="/etc/hostname")
    assert "directory does not answer" in refusal(sign_in("ned"))
    use_directory(LDAP_URI=directory.uri.replace("127.0.0.1", "localhost"))
    assert "directory does not answer" in refusal(sign_in("ned"))


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"LDAP_URI": "http://localhost"}, "must start with ldap://"),
        ({"LDAP_URI": "ldap://localhost", "LDAP_START_TLS": "0"}, "not encrypted"),
        ({"LDAP_START_TLS": "perhaps"}, "must be 1 or 0"),
        ({"LDAP_USER_SEARCH_FILTER": "(uid=x)"}, r"must contain %\(user\)s"),
        ({"LDAP_USER_SEARCH_FILTER": "(&(uid=%(user)s)(cn=%s))"}, r"must contain %\(user\)s"),
        ({"LDAP_USER_SEARCH_BASE": ""}, "LDAP_USER_SEARCH_BASE is missing"),
        ({"LDAP_ROLES": '{"cn=a": "owner"}', "LDAP_GROUP_SEARCH_BASE": "ou=g"}, "is not a console role"),
        ({"LDAP_ROLES": ROLES}, "need LDAP_GROUP_SEARCH_BASE"),
        ({"LDAP_GROUPS": "x"}, "not valid JSON"),
        ({"LDAP_BIND_PASSWORD_FILE": "/nowhere"}, "cannot be read"),
        ({"LDAP_TIMEOUT_SECONDS": "soon"}, "must be a number"),
        ({"LDAP_MAX_REMOVED_PERCENT": "101"}, "between 0 and 100"),
        ({"LDAP_URL": "x"}, "LDAP_URL is not a setting"),
    ],
)
def test_invalid_settings_stop_the_start(variables, sentence):
    complete = {"LDAP_URI": "ldaps://localhost", "LDAP_USER_SEARCH_BASE": user_dn("x")}
    assert ldap_options({}) is None and "secret" not in repr(
        ldap_options(complete | {"LDAP_BIND_PASSWORD": "secret"})
    )
    with pytest.raises(ImproperlyConfigured, match=sentence):
        ldap_options(complete | variables)


def test_missing_packages_stop_the_start(monkeypatch):
    monkeypatch.setattr(user_directory, "find_spec", lambda name: None)
    assert ldap_options({}) is None
    with pytest.raises(ImproperlyConfigured, match="extra `ldap`"):
        ldap_options({"LDAP_URI": "ldaps://localhost"})


def test_plaintext_is_refused_in_production(monkeypatch):
    variables = {
        "LDAP_URI": "ldap://localhost",
        "LDAP_START_TLS": "0",
        "LDAP_ALLOW_PLAINTEXT": "1",
        "LDAP_USER_SEARCH_BASE": "o=x",
    }
    assert ldap_options(variables) is not None
    monkeypatch.setattr(user_directory, "PRODUCTION", True)
    with pytest.raises(ImproperlyConfigured, match="LDAP_ALLOW_PLAINTEXT is set in PRODUCTION"):
        ldap_options(variables)
