"""Users over SCIM: provisioning, deactivation with sessions and tokens, removal and return."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.test import Client

from authzconsole.common.sign_in_methods import facts_of_tokens
from authzconsole.common.tokens import verify_token
from authzconsole.scim import rows
from grants.journal import current_revision, lock_journal
from grants.models import JournalLine, Role, User
from grants.principals.services import set_user_email
from grants.verification.replay import first_fault
from tests.scim.conftest import GROUP, PATCH, USER, Scim, error_of, provisioning_token
from tests.support.authors import COMMAND, database_state, lines_after
from tests.support.changes import add_user, issue_token, set_user_active


def test_a_created_user_is_a_principal_without_password_or_role(scim, issued_token):
    before = current_revision()
    answer = scim.create_user(
        "nina",
        externalId="00u1",
        emails=[{"value": "b@example.com"}, {"value": "a@example.com", "primary": True}],
        name={"givenName": "Nina"},
        roles=[{"value": "administrator"}],
    )
    assert answer.status_code == 201 and answer["Location"] == answer.json()["meta"]["location"]
    user = User.objects.get(username="nina")
    assert answer.json() | {"meta": {}} == {
        "schemas": [USER],
        "id": str(user.pk),
        "userName": "nina",
        "active": True,
        "externalId": "00u1",
        "meta": {},
        "emails": [{"value": "a@example.com", "type": "work"}],
    }
    assert user.is_principal and not user.has_usable_password() and user.role == Role.ORDINARY
    assert lines_after(before) == [("user-add", "user:nina", "", "", "")]
    line = JournalLine.objects.latest("revision")
    assert (line.actor, line.token, line.issuer) == ("idp", issued_token.token.pk, COMMAND.name)


def test_names_that_collide_or_are_invalid_are_refused(scim, issued_token):
    before = database_state()
    assert "already exists" in error_of(scim.create_user("ned"), 409, "uniqueness")
    assert "already exists" in error_of(scim.create_user("idp"), 409, "uniqueness")
    for name in ("", " ", "x" * 151, "a\nb"):
        error_of(scim.create_user(name), 400, "invalidValue")
    error_of(scim.send("post", "/Users", {"schemas": [USER]}), 400, "invalidValue")
    error_of(scim.send("post", "/Users", {"userName": "nina"}), 400, "invalidSyntax")
    for body in (b"", b"{", b"[]", b'{"schemas": ["\\ud800"]}'):
        error_of(scim.send("post", "/Users", body), 400, "invalidSyntax")
    error_of(scim.send("post", "/Users", {"schemas": [USER]}, content_type="text/plain"), 415)
    error_of(scim.send("post", "/Users", b" " * 1_000_001), 413)
    assert database_state() == before


@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "ADA",
        " ada",
        "ada ",
        "ada\u200b",
        "\u202eada",
        "\u0430da",
        "\uff41da",
        "bootstrap",
        "sign-in",
    ],
)
def test_the_attack_a_provisioned_name_looks_like_another_author(scim, name):
    before = database_state()
    assert "invalid user name" in error_of(scim.create_user(name), 409)
    assert database_state() == before


def deactivations(pk):
    return [
        ("patch", {"schemas": [PATCH], "Operations": [{"op": "replace", "path": "active", "value": False}]}),
        ("patch", {"schemas": [PATCH], "Operations": [{"op": "Replace", "value": {"active": "False"}}]}),
        ("put", {"schemas": [USER], "id": pk, "userName": "ned", "active": False}),
        ("delete", None),
    ]


@pytest.mark.parametrize("number", range(4))
def test_deactivation_ends_sessions_and_tokens(scim, cast, ids, number):
    browser = Client()
    browser.force_login(cast["ned"])
    token = issue_token("ned", "read")
    assert browser.get("/my-access").status_code == 200 and verify_token(token.secret)
    before = current_revision()
    method, body = deactivations(ids["ned"])[number]
    answer = scim.send(method, f"/Users/{ids['ned']}", body)
    assert answer.status_code == (204 if method == "delete" else 200), answer.content
    assert [line[:2] for line in lines_after(before)] == [
        ("user-deactivate", "user:ned"),
        ("token-revoke", "user:ned"),
        ("sessions-end", "user:ned"),
    ]
    assert browser.get("/my-access").status_code == 302
    assert (
        Client().get("/api/v1/users", headers={"Authorization": f"Bearer {token.secret}"}).status_code == 401
    )
    assert User.objects.get(username="ned").grants.count() == 6


def test_the_last_administrator_cannot_be_deactivated(scim, ids):
    before = database_state()
    for method, body in deactivations(ids["ada"]):
        if body and "userName" in body:
            body["userName"] = "ada"
        assert "only active administrator" in error_of(scim.send(method, f"/Users/{ids['ada']}", body), 409)
    assert database_state() == before


def test_the_attack_a_provisioning_service_cannot_close_the_break_glass_accounts(scim, ids, settings):
    settings.BREAK_GLASS_ACCOUNTS = ["ned"]
    before = database_state()
    email = {"op": "replace", "path": "emails", "value": [{"value": "other@example.org"}]}
    for method, body in (("patch", {"schemas": [PATCH], "Operations": [email]}), *deactivations(ids["ned"])):
        assert "break-glass account" in error_of(scim.send(method, f"/Users/{ids['ned']}", body), 409)
    assert database_state() == before


def test_a_request_applies_fully_or_not_at_all(scim, ids):
    before = database_state()
    answer = scim.patch(
        f"/Users/{ids['ada']}",
        {"op": "replace", "path": 'emails[type eq "work"].value', "value": "new@x.org"},
        {"op": "replace", "path": "active", "value": False},
    )
    error_of(answer, 409)
    answer = scim.patch(
        f"/Users/{ids['ned']}",
        {"op": "replace", "path": "active", "value": False},
        {"op": "replace", "path": "userName", "value": "dee"},
    )
    error_of(answer, 409)
    answer = scim.patch(
        f"/Users/{ids['ned']}",
        {"op": "replace", "path": "active", "value": False},
        {"op": "replace", "path": "emails", "value": [{"value": "a\nb"}]},
    )
    error_of(answer, 400, "invalidValue")
    assert database_state() == before and User.objects.get(username="ada").email == ""


def test_users_are_renamed_with_the_checks_of_the_pages(scim, ids):
    path, before, grants = (
        f"/Users/{ids['dee']}",
        current_revision(),
        User.objects.get(username="dee").grants.count(),
    )
    answer = scim.patch(
        path,
        {"op": "replace", "path": "userName", "value": "dee.smith"},
        {"op": "replace", "path": 'emails[type eq "work"].value', "value": "dee@example.com"},
    )
    assert answer.status_code == 200 and answer.json()["userName"] == "dee.smith"
    user = User.objects.get(username="dee.smith")
    assert (str(user.pk), user.email, user.grants.count()) == (ids["dee"], "dee@example.com", grants)
    assert [line[:2] for line in lines_after(before)] == [
        ("user-rename", "user:dee"),
        ("user-change", "user:dee.smith"),
    ]
    assert (
        scim.send("put", path, {"schemas": [USER], "userName": "dee", "active": True}).json()["userName"]
        == "dee"
    )
    unchanged = database_state()
    for name, status in (("ned", 409), ("NED", 409), ("n\u200bed", 409), ("", 400), ("a\nb", 400)):
        error_of(
            scim.patch(path, {"op": "replace", "path": "userName", "value": name}),
            status,
            "invalidValue" if status == 400 else None,
        )
    assert "only an administrator can change the account" in error_of(
        scim.patch(f"/Users/{ids['ada']}", {"op": "replace", "path": "userName", "value": "adam"}), 409
    )
    assert database_state() == unchanged


def test_the_dialect_of_entra_id_is_understood(scim, ids):
    path = f"/Users/{ids['dee']}"
    answer = scim.patch(
        path,
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "dee@example.com"},
        {"op": "Replace", "path": "name.givenName", "value": "Dee"},
        {"op": "Replace", "path": "externalId", "value": "x-1"},
    )
    assert answer.status_code == 200, answer.content
    assert (answer.json()["emails"], answer.json()["externalId"]) == (
        [{"value": "dee@example.com", "type": "work"}],
        "x-1",
    )
    answer = scim.patch(
        path, {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "d@example.com"}
    )
    assert answer.json()["emails"][0]["value"] == "d@example.com"
    answer = scim.send("put", path, {"schemas": [USER], "userName": "dee"})
    assert (
        "emails" not in answer.json()
        and "externalId" not in answer.json()
        and answer.json()["active"] is True
    )


def test_a_removed_user_is_hidden_and_returns_without_the_access_of_the_past(scim, ids):
    scim.create_user("nina")
    pk = scim.get("/Users", filter='userName eq "nina"').json()["Resources"][0]["id"]
    group = scim.create_group("readers", [pk, ids["dee"]]).json()
    User.objects.filter(pk=pk).update(password=make_password("of-the-first-nina"))
    Authenticator.objects.create(user_id=pk, type=Authenticator.Type.TOTP, data={"secret": ""})
    SocialAccount.objects.create(user_id=pk, provider="corp", uid="s-nina")
    before = current_revision()
    assert scim.send("delete", f"/Users/{pk}").status_code == 204
    assert [line[:2] for line in lines_after(before)] == [
        ("user-deactivate", "user:nina"),
        ("member-remove", "user:nina"),
    ]
    for answer in (
        scim.get(f"/Users/{pk}"),
        scim.patch(f"/Users/{pk}", {"op": "replace", "path": "active", "value": True}),
        scim.send("delete", f"/Users/{pk}"),
        scim.get("/Users/07"),
        scim.get("/Users/x"),
    ):
        error_of(answer, 404)
    assert scim.names("/Users", filter='userName eq "nina"') == []
    error_of(
        scim.patch(f"/Groups/{group['id']}", {"op": "add", "path": "members", "value": [{"value": pk}]}),
        400,
        "invalidValue",
    )
    # the name may be given to another person, who gets nothing
    answer = scim.create_user("nina", emails=[{"value": "n2@example.com"}])
    assert answer.status_code == 201 and answer.json()["id"] == pk and answer.json()["active"] is True
    assert "groups" not in answer.json()
    assert not User.objects.get(pk=pk).has_usable_password()
    assert (
        not Authenticator.objects.filter(user_id=pk).exists()
        and not SocialAccount.objects.filter(user_id=pk).exists()
    )
    assert [line for line in lines_after(before) if line[0] in ("factor-reset", "identity-unlink")] == [
        ("factor-reset", "user:nina", "", "", "authenticator app"),
        ("identity-unlink", "user:nina", "", "", "provider: corp, subject: s-nina"),
    ]
    assert scim.send("delete", f"/Users/{ids['dee']}").status_code == 204
    assert "would inherit" in error_of(scim.create_user("dee"), 409, "uniqueness")


ACTIVATE = {"op": "replace", "path": "active", "value": True}


def test_the_attack_a_provisioning_service_undoes_an_emergency_block(scim, ids):
    add_user("adm2", role=Role.ADMINISTRATOR)
    adm2 = str(User.objects.get(username="adm2").pk)
    for name, pk in (("adm2", adm2), ("dee", ids["dee"])):
        set_user_active(name, active=False)
        before = database_state()
        for answer in (
            scim.patch(f"/Users/{pk}", ACTIVATE),
            scim.send("put", f"/Users/{pk}", {"schemas": [USER], "userName": name, "active": True}),
        ):
            assert "only an administrator can activate the account" in error_of(answer, 409)
        assert database_state() == before
    # also by removal and creation under the same name, without grants and memberships
    add_user("nina")
    set_user_active("nina", active=False)
    assert scim.send("delete", f"/Users/{User.objects.get(username='nina').pk}").status_code == 204
    assert "deactivated outside SCIM" in error_of(scim.create_user("nina"), 409, "uniqueness")
    assert not User.objects.filter(username__in=["adm2", "dee", "nina"], is_active=True).exists()


def test_a_provisioning_service_activates_ordinary_users_that_it_deactivated(scim, ids):
    path = f"/Users/{ids['dee']}"
    assert scim.patch(path, ACTIVATE | {"value": False}).status_code == 200
    assert scim.patch(path, ACTIVATE).json()["active"] is True
    created = scim.create_user("nina", active=False).json()["id"]
    assert scim.patch(f"/Users/{created}", ACTIVATE).status_code == 200
    # an administrator deactivated the account last, so the service cannot activate it
    set_user_active("dee", active=False)
    error_of(scim.patch(path, ACTIVATE), 409)
    # a role keeps the account inactive also if the service deactivated it
    path = f"/Users/{ids['aud']}"
    assert scim.patch(path, ACTIVATE | {"value": False}).status_code == 200
    assert "has the console role auditor" in error_of(scim.patch(path, ACTIVATE), 409)


def test_the_attack_a_patch_with_thousands_of_operations_blocks_all_writes(scim, ids, monkeypatch):
    locks = []
    monkeypatch.setattr(rows, "lock_journal", lambda: locks.append(1))
    email = {"op": "replace", "path": 'emails[type eq "work"].value', "value": "a@b.example"}
    long_path = "emails[" + " or ".join(['value eq "a"'] * 3_000) + "].value"
    group = scim.create_group("readers").json()["id"]
    locks.clear()
    for path, operations in (
        (f"/Users/{ids['ned']}", [email] * 101),
        (f"/Users/{ids['ned']}", [email | {"path": long_path}]),
        (f"/Users/{ids['ned']}", [{"op": "add", "value": {f"x{i}": 1 for i in range(101)}}]),
        (f"/Groups/{group}", [{"op": "remove", "path": 'members[value eq "1"]'}] * 501),
    ):
        error_of(scim.patch(path, *operations), 400, "tooMany")
    twice = {"schemas": [PATCH], "operations": [], "Operations": [email] * 101}
    error_of(scim.send("patch", f"/Users/{ids['ned']}", twice), 400, "tooMany")
    assert locks == []
    assert scim.patch(f"/Users/{ids['ned']}", *[email] * 100).status_code == 200 and locks == [1]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "/Users", {"schemas": [USER], "userName": 1}),
        ("put", "/Users/1", {"schemas": [USER]}),
        ("patch", "/Users/1", {}),
        ("post", "/Groups", {"schemas": [GROUP], "members": [{"value": "x"}], "displayName": "x"}),
        ("put", "/Groups/1", {"schemas": [GROUP]}),
        ("patch", "/Groups/1", {"schemas": [PATCH], "Operations": [{"op": "x"}]}),
    ],
)
def test_the_attack_invalid_requests_wait_for_the_journal(scim, monkeypatch, method, path, body):
    monkeypatch.setattr(rows, "lock_journal", lambda: pytest.fail("the journal was locked"))
    assert scim.send(method, path, body).status_code == 400


def test_a_patch_applies_to_the_user_as_another_request_left_it(scim, ids, monkeypatch):
    def lock_after_another_change():
        set_user_email(author=COMMAND, name="dee", email="new@x.example")
        return lock_journal()

    monkeypatch.setattr(rows, "lock_journal", lock_after_another_change)
    answer = scim.patch(f"/Users/{ids['dee']}", ACTIVATE | {"value": False})
    assert answer.status_code == 200 and answer.json()["emails"][0]["value"] == "new@x.example"


def test_service_accounts_are_invisible(scim, issued_token):
    pk = User.objects.get(username="idp").pk
    assert "idp" not in scim.names("/Users")
    error_of(scim.send("delete", f"/Users/{pk}"), 404)


def test_lists_are_filtered_sorted_and_paged(scim, ids):
    scim.patch(
        f"/Users/{ids['dee']}",
        {"op": "replace", "value": {"emails": [{"value": "Dee@Example.com"}], "externalId": "E1"}},
    )
    everybody = scim.names("/Users")
    assert sorted(everybody) == sorted(ids)
    for text, names in {
        'userName eq "ned"': {"ned"},
        'userName eq "NED"': set(),
        'userName ne "ned"': set(ids) - {"ned"},
        'userName co "e"': {"ned", "dee"},
        'userName sw "d"': {"dee"},
        'userName ew "d"': {"ned", "aud"},
        'userName co "E"': set(),
        'userName sw ""': set(ids),
        'userName gt "ned"': {"out"},
        'userName ge "ned"': {"ned", "out"},
        'userName lt "aud"': {"ada"},
        'userName le "aud"': {"ada", "aud"},
        "active eq false": {"ina"},
        "active ne false": set(ids) - {"ina"},
        'emails eq "dee@example.com"': {"dee"},
        'emails.value co "EXAMPLE"': {"dee"},
        "emails pr": {"dee"},
        "not (emails pr)": set(ids) - {"dee"},
        'emails[type eq "work" and value sw "dee"]': {"dee"},
        'emails[type eq "home"]': set(),
        'externalId eq "E1"': {"dee"},
        "externalId pr": {"dee"},
        'externalId ne "E1"': set(ids) - {"dee"},
        "externalId eq null": set(ids) - {"dee"},
        'groups.display eq "operators"': {"grp"},
        "groups pr": {"grp"},
        'groups[display sw "op"]': {"grp"},
        'groups.display ne "operators"': set(ids) - {"grp"},
        f'id eq "{ids["ned"]}"': {"ned"},
        'id eq "0"': set(),
        'userName eq "ned" or userName eq "dee"': {"ned", "dee"},
        'userName eq "ned" and active eq false': set(),
        'active eq true and (userName sw "a" or userName sw "o")': {"ada", "aud", "out"},
        'active eq false or userName eq "ned" and active eq true': {"ina", "ned"},
        'meta.resourceType eq "User"': set(ids),
        'urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ned"': {"ned"},
        'USERNAME EQ "ned"': {"ned"},
        'userName eq "x\\" or userName pr"': set(),
        'userName co "%"': set(),
        'userName co "_"': set(),
    }.items():
        assert set(scim.names("/Users", filter=text)) == names, text
    assert scim.names("/Users", sortBy="userName") == sorted(ids)
    assert scim.names("/Users", sortBy="userName", sortOrder="descending", count=2, startIndex=2) == [
        "ned",
        "ina",
    ]
    assert scim.names("/Users", sortBy="emails")[0] == scim.names("/Users", sortBy="externalId")[0] == "dee"
    assert scim.names("/Users", sortBy="emails.value", sortOrder="descending")[-1] == "dee"
    first = scim.get("/Users", count=3, startIndex=-5).json()
    assert (first["totalResults"], first["startIndex"], first["itemsPerPage"]) == (len(ids), 1, 3)
    assert (
        scim.get("/Users", count=0).json()["Resources"]
        == []
        == scim.get("/Users", startIndex=99).json()["Resources"]
    )
    found = scim.send(
        "post",
        "/Users/.search",
        {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"],
            "filter": 'userName eq "ned"',
            "attributes": ["userName"],
            "count": 5,
        },
    )
    assert found.json()["Resources"] == [{"schemas": [USER], "id": ids["ned"], "userName": "ned"}]
    one = scim.get(f"/Users/{ids['dee']}", attributes="emails.primary,active").json()
    assert one == {"schemas": [USER], "id": ids["dee"], "active": True, "emails": [{"primary": True}]}
    assert "emails" not in scim.get(f"/Users/{ids['dee']}", excludedAttributes="emails,meta.location").json()


MALFORMED = [
    "",
    " ",
    "userName",
    "userName eq",
    'userName eq "ned',
    "userName eq ned",
    'userName xx "ned"',
    'userName eq "a" and',
    '(userName eq "a"',
    'userName eq "a")',
    'nothing eq "a"',
    "active co true",
    'active gt "a"',
    'active eq "maybe"',
    "userName eq 5",
    "userName gt true",
    'emails[type eq "work"',
    'emails[nothing eq "a"]',
    "id gt 5",
    'id co "1"',
    "userName gt null",
    'password eq "x"',
    'userName eq "\\u0000"',
    'userName ew "\\ud800"',
    "(" * 60 + "active pr" + ")" * 60,
    "not " * 500 + "active pr",
    'userName eq "a" or ' * 300 + "active pr",
    "'; DROP TABLE grants_user; --",
    'meta.location eq "x"',
    "🙂 eq 1",
]


def test_malformed_filters_are_refused(scim):
    for text in MALFORMED:
        error_of(scim.get("/Users", filter=text), 400, "invalidFilter")


def test_other_bad_parameters_are_refused(scim):
    error_of(scim.get("/Users", sortBy="nothing"), 400, "invalidPath")
    error_of(scim.get("/Users", sortOrder="up"), 400, "invalidValue")
    error_of(scim.get("/Users", count="many"), 400, "invalidValue")
    error_of(scim.get("/Users", startIndex="9" * 30), 400, "invalidValue")
    error_of(scim.get("/Users", attributes="id", excludedAttributes="active"), 400, "invalidValue")


def test_the_number_of_queries_is_bounded(scim, ids, django_assert_num_queries):
    scim.get("/Users")
    # token, count, page, groups
    with django_assert_num_queries(4):
        scim.get("/Users")
    with django_assert_num_queries(3):
        scim.get("/Users", excludedAttributes="groups", filter='groups.display eq "operators"')


@pytest.mark.django_db
def test_the_journal_and_the_tables_agree(settings):
    settings.SCIM_ENABLED = True
    scim = Scim(headers={"Authorization": f"Bearer {provisioning_token().secret}"})
    first, second = (scim.create_user(name).json()["id"] for name in ("nina", "olaf"))
    groups = [scim.create_group(name, [first, second]).json()["id"] for name in ("readers", "writers")]
    scim.patch(f"/Groups/{groups[0]}", {"op": "remove", "path": f'members[value eq "{first}"]'})
    scim.patch(f"/Users/{second}", {"op": "replace", "value": {"active": False, "externalId": "7"}})
    scim.send("delete", f"/Users/{first}")
    assert scim.create_user("nina").status_code == 201
    assert scim.send("delete", f"/Groups/{groups[1]}").status_code == 204
    assert first_fault(facts_of_tokens) is None


def test_the_attack_a_provisioning_service_changes_the_account_of_a_console_role(scim, ids):
    """With its email or its name, the service could sign in as this account."""
    before = database_state()
    for name in ("ada", "aud"):
        for operation in (
            {"op": "replace", "path": "emails", "value": [{"value": "attacker@example.com"}]},
            {"op": "replace", "path": "userName", "value": "attacker"},
        ):
            assert "has the console role" in error_of(scim.patch(f"/Users/{ids[name]}", operation), 409)
        body = {"schemas": [USER], "userName": name, "emails": [{"value": "attacker@example.com"}]}
        assert "has the console role" in error_of(scim.send("put", f"/Users/{ids[name]}", body), 409)
    assert database_state() == before
    assert not User.objects.exclude(email="").exists()
    # access can always be ended, but not given back
    assert (
        scim.patch(f"/Users/{ids['aud']}", {"op": "replace", "value": {"active": False}}).status_code == 200
    )
    answer = scim.patch(f"/Users/{ids['aud']}", {"op": "replace", "value": {"active": True}})
    assert "only an administrator" in error_of(answer, 409)
