"""New names cannot be confused with existing ones. Existing names keep working."""

import io
import json

import pytest
from django.contrib.auth.models import Group

from entities.vocabulary import Privilege
from grants.errors import PrincipalError
from grants.journal import Author, first_break
from grants.models import JournalLine, Role, User
from grants.principals.new_names import names_that_differ_in_case, new_name_faults
from grants.tenant.export_document import export_tenant
from grants.tenant.import_document import import_tenant
from grants.tenant.reading import BadTenantDocument
from tests.support.authors import COMMAND
from tests.support.changes import add_grant, add_group, add_user

pytestmark = pytest.mark.django_db

ADD = {"user": add_user, "group": add_group}
INVISIBLE = [
    "adm\u200bin",
    "admin\u202e",
    "\u2066admin",
    "ad\u00admin",
    "admin\ufeff",
    "admin\u3164",
    "a\u034fdmin",
    "admin\ufe0f",
    "ad\u2028min",
    "admin\U000e0041",
    "admin\ue000",
]


@pytest.fixture
def admin():
    return User.objects.create(username="admin"), Group.objects.create(name="admin")


@pytest.mark.parametrize("kind", ADD)
@pytest.mark.parametrize("name", INVISIBLE)
def test_the_attack_an_invisible_character_makes_a_second_admin(kind, name, admin):
    with pytest.raises(
        PrincipalError, match="the name contains the invisible character U+".replace("+", r"\+")
    ):
        ADD[kind](author=COMMAND, name=name)
    assert User.objects.count() == Group.objects.count() == 1


@pytest.mark.parametrize("kind", ADD)
@pytest.mark.parametrize(
    "name", ["Admin", "ADMIN", "aDmIn", "\uff41dmin", "ad\u1d50in", "\uff21\uff24\uff2d\uff29\uff2e"]
)
def test_the_attack_a_name_that_looks_like_admin(kind, name, admin):
    with pytest.raises(PrincipalError, match=f"looks like the existing {kind}:admin"):
        ADD[kind](author=COMMAND, name=name)


@pytest.mark.parametrize(
    ("existing", "new"),
    [("ZOË", "zoë"), ("Zoë", "zoë"), ("zoë", "ZOË"), ("STRASSE", "straße"), ("fin", "ﬁn")],
)
def test_names_beyond_ascii_are_compared_without_case(existing, new):
    User.objects.create(username=existing)
    with pytest.raises(PrincipalError, match="looks like"):
        add_user(new)


@pytest.mark.parametrize("kind", ADD)
@pytest.mark.parametrize(
    "name",
    ["\u0430dmin", "\u0410DMIN", "adm\u0456n", "\u03b1dmin", "\u0391dmin", "\U0001d6c2dmin", "adm\u0131n"],
)
def test_the_attack_a_letter_of_another_script_makes_a_second_admin(kind, name, admin):
    with pytest.raises(PrincipalError, match=f"looks like the existing {kind}:admin"):
        ADD[kind](author=COMMAND, name=name)


@pytest.mark.parametrize("kind", ADD)
@pytest.mark.parametrize("name", [" admin", "admin ", "admin\u00a0", "\u2003admin", " another"])
def test_the_attack_a_space_at_the_edge_makes_a_second_admin(kind, name, admin):
    with pytest.raises(PrincipalError, match="starts or ends with a space"):
        ADD[kind](author=COMMAND, name=name)
    User.objects.create(username=name)
    assert not add_user(name).has_changed


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap",
        "Bootstrap",
        "create_token",
        "import_tenant",
        "new_storage_identity",
        "restore",
        "sync_ldap_groups",
        "sign-in",
        "migrate",
        "b\u043eotstrap",
        "bootstrap (account)",
    ],
)
def test_a_user_cannot_have_the_name_of_a_command(name):
    with pytest.raises(PrincipalError, match="is reserved for a command of the console"):
        add_user(name, is_principal=False)
    assert add_group(name).has_changed


@pytest.mark.parametrize("name", ["ada (account)", "Ada (Account)", "ada (\u0430ccount)"])
def test_a_user_cannot_have_a_name_that_looks_like_an_author_of_journal_lines(name):
    with pytest.raises(PrincipalError, match="as the journal writes some accounts"):
        add_user(name)
    assert add_group(name).has_changed


def test_the_attack_an_imported_account_writes_journal_lines_as_a_command():
    account = User.objects.create(username="bootstrap", role=Role.ADMINISTRATOR)
    add_group("of-command", author=Author("bootstrap"))
    add_group("of-account", author=Author("bootstrap", user_id=account.pk))
    lines = JournalLine.objects.order_by("revision").values_list("actor", "principal")
    assert list(lines) == [("bootstrap", "group:of-command"), ("bootstrap (account)", "group:of-account")]
    assert first_break() is None


@pytest.mark.parametrize(
    "name", ["admin2", "admïn", "o'brien", "backup", "test", "名前", "первый", "user name", "a@b.example"]
)
def test_other_names_are_accepted(name, admin):
    assert all(add(author=COMMAND, name=name).has_changed for add in ADD.values())


def test_existing_names_keep_working():
    for name in ("admin", "Admin", "adm\u200bin"):
        User.objects.create(username=name)
        assert not add_user(name).has_changed
    add_grant("user:adm\u200bin", "namespace:sales", Privilege.READ)
    exported = io.BytesIO()
    export_tenant(exported)
    import_tenant(stream=io.BytesIO(exported.getvalue()), author=COMMAND)


def document(*names: str) -> io.BytesIO:
    lines = [{"type": kind, "name": name} for name in names for kind in ("user", "group")]
    return io.BytesIO("\n".join(map(json.dumps, lines)).encode())


def test_an_import_accepts_names_in_different_case_but_no_invisible_characters():
    import_tenant(stream=document("admin", "Admin", "bootstrap"), author=COMMAND)
    assert User.objects.count() == Group.objects.count() == 3
    with pytest.raises(BadTenantDocument) as refusal:
        import_tenant(stream=document("ok", "adm\u200bin"), author=COMMAND)
    assert [(fault.line, fault.field) for fault in refusal.value.faults] == [(3, "name"), (4, "name")]
    assert "U+200B" in str(refusal.value) and User.objects.count() == 3


def test_existing_names_that_differ_only_in_case_are_reported_and_keep_working():
    for name in ("Admin", "admin", "bob"):
        User.objects.create(username=name)
    Group.objects.create(name="Ops")
    Group.objects.create(name="OPS")
    assert set(names_that_differ_in_case(10)) == {"user:Admin", "user:admin", "group:OPS", "group:Ops"}
    assert len(names_that_differ_in_case(1)) == 2


def test_many_new_names_are_compared_with_the_existing_ones_together(django_assert_num_queries):
    User.objects.bulk_create(User(username=f"user{number}") for number in range(300))
    names = [f"{'USER' if number % 2 else 'person'}{number}" for number in range(300)]
    with django_assert_num_queries(1):
        faults = new_name_faults("user", names)
    assert faults.keys() == {f"USER{number}" for number in range(1, 300, 2)}
    assert faults["USER7"] == "`USER7` looks like the existing user:user7"
