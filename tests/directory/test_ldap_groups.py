"""`manage.py sync_ldap_groups` against a real slapd."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from authzconsole.directory.connection import DirectoryError, canonical_dn, subject_text
from authzconsole.directory.sync import read_members
from authzconsole.settings.user_directory import ldap_options
from grants.journal import current_revision
from grants.models import JournalLine, Role, User
from tests.support.authors import database_state, lines_after
from tests.support.cast import create_sample_users
from tests.support.slapd import GROUPS, group_dn, user_dn

READERS = {"LDAP_GROUPS": json.dumps({group_dn("READERS").replace(",", ", "): "readers"})}


@pytest.fixture
def cast(db):
    """The sample users, and the group `readers` with dee, out and a service account."""
    cast = create_sample_users()
    batch = User.objects.create(username="batch", is_service=True)
    Group.objects.create(name="readers").user_set.add(cast["dee"], cast["out"], batch)
    return cast


@pytest.fixture
def readers(directory):
    """The group of the directory; its members are restored after the test."""
    yield lambda *names: directory.set_members("readers", map(user_dn, names))
    directory.set_members("readers", map(user_dn, ("ned", "dee", "nina")))


def sync(**options):
    output = StringIO()
    call_command("sync_ldap_groups", stdout=output, stderr=output, **options)
    return output.getvalue()


def members(name="readers"):
    return set(User.objects.filter(groups__name=name).values_list("username", flat=True))


def memory_peak():
    """Return the largest memory use of this process in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def test_memberships_follow_the_directory(cast, use_directory, monkeypatch):
    # several pages; the server refuses a search for all users without pages
    monkeypatch.setattr("authzconsole.directory.connection.ENTRIES_PER_PAGE", 3)
    use_directory(**READERS)
    before = database_state()
    output = sync(dry_run=True)
    assert (
        "2 members here, 3 in the directory, 1 of them unknown in this console; 1 to add, 1 to remove"
        in output
    )
    assert "  + user:ned\n" in output and "  - user:out\n" in output and "nothing was changed" in output
    assert database_state() == before
    sync()
    # a service account and an unknown user are left alone
    assert members() == {"ned", "dee", "batch"} and not User.objects.filter(username="nina").exists()
    assert lines_after(before[0]) == [
        ("member-remove", "user:out", "", "", "group:readers"),
        ("member-add", "user:ned", "", "", "group:readers"),
    ]
    assert JournalLine.objects.latest("revision").actor == "sync_ldap_groups"
    revision = current_revision()
    assert "0 to add, 0 to remove" in sync() and current_revision() == revision


def test_nested_groups_count_only_if_configured(cast, use_directory):
    User.objects.create(username="olaf")
    mapping = json.dumps({group_dn("cycle"): "readers", group_dn("auditors"): "operators"})
    use_directory(LDAP_GROUPS=mapping, LDAP_NESTED_GROUPS="1")
    sync()
    assert members() == {"ned", "dee", "olaf", "batch"} and members("operators") == {"ned", "dee"}
    # the only members of `cycle` are groups
    use_directory(LDAP_GROUPS=json.dumps({group_dn("cycle"): "readers"}))
    with pytest.raises(CommandError, match="never removes all members of a group"):
        sync()


def test_a_directory_that_is_down_incomplete_or_empty_changes_nothing(cast, use_directory, readers):
    before = database_state()
    for variables, sentence in (
        ({"LDAP_URI": "ldap://127.0.0.1:1"}, "answers with an error"),
        ({"LDAP_BIND_PASSWORD": "wrong"}, "Invalid credentials"),
        ({"LDAP_BIND_DN": "", "LDAP_BIND_PASSWORD": ""}, "has no entry|error"),
        ({"LDAP_GROUPS": json.dumps({group_dn("nothing"): "readers"})}, "has no entry"),
        ({"LDAP_GROUPS": json.dumps({group_dn("readers"): "nowhere"})}, "does not exist in this console"),
        ({"LDAP_GROUPS": json.dumps({"nonsense": "readers"})}, "not a distinguished name"),
        ({"LDAP_USER_SEARCH_FILTER": "(sn=x%(user)sx)"}, "returned no users"),
        ({"LDAP_USER_SEARCH_FILTER": "(uid=%(user)s"}, "error"),
        (
            {
                "LDAP_USER_SEARCH_BASE": GROUPS,
                "LDAP_USER_SEARCH_FILTER": "(cn=%(user)s)",
                "LDAP_NAME_ATTRIBUTE": "cn",
            },
            "never removes all members of a group",
        ),
    ):
        use_directory(**READERS | variables)
        with pytest.raises(CommandError, match=sentence):
            sync()
    assert database_state() == before


def test_removing_a_large_share_needs_an_option(cast, use_directory, readers):
    use_directory(**READERS)
    group = Group.objects.get(name="readers")
    group.user_set.add(*User.objects.bulk_create(User(username=f"u{number}") for number in range(20)))
    before = database_state()
    with pytest.raises(CommandError, match="21 of 22 memberships would be removed, more than 20 %"):
        sync()
    with pytest.raises(CommandError, match="more than 95 %"):
        sync(max_removed_percent=95)
    assert database_state() == before
    sync(max_removed_percent=96)
    assert members() == {"ned", "dee", "batch"}


def test_roles_follow_the_directory_for_its_accounts_only(cast, use_directory):
    use_directory(
        LDAP_ROLES=json.dumps({group_dn("admins"): "administrator", group_dn("auditors"): "auditor"})
    )
    for name, role in (("ned", Role.ORDINARY), ("dee", Role.ADMINISTRATOR), ("out", Role.AUDITOR)):
        User.objects.filter(username=name).update(role=role)
        SocialAccount.objects.create(user=cast[name], provider="ldap", uid=name)
    before = current_revision()
    assert "user:ned: role administrator instead of ordinary" in sync(dry_run=True)
    sync()
    roles = dict(User.objects.values_list("username", "role"))
    assert (roles["ned"], roles["dee"], roles["out"], roles["ada"]) == (
        "administrator",
        "auditor",
        "ordinary",
        "administrator",
    )
    assert [line[0] for line in lines_after(before)] == ["role-set"] * 3


def test_the_last_administrator_keeps_the_role(cast, use_directory):
    use_directory(LDAP_ROLES=json.dumps({group_dn("admins"): "administrator"}))
    User.objects.filter(username="ada").update(role=Role.ORDINARY)
    User.objects.filter(username="out").update(role=Role.ADMINISTRATOR)
    SocialAccount.objects.create(user=cast["out"], provider="ldap", uid="out")
    assert "only active administrator" in sync()
    assert User.objects.get(username="out").role == Role.ADMINISTRATOR


def test_a_hundred_thousand_members_need_bounded_memory(directory, readers):
    options = ldap_options(directory.environment | READERS)
    directory.set_members(
        "readers",
        [
            user_dn("dee"),
            user_dn("olaf"),
            *(
                f"uid=somebody.with.a.long.name.{number},ou=elsewhere,dc=example,dc=org"
                for number in range(100_000)
            ),
        ],
    )
    # reset the peak of the memory use
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_peak()
    assert [sorted(names) for names in read_members(options).names.values()] == [["dee", "olaf"]]
    assert memory_peak() - before < 100 * 2**20


def test_the_number_of_statements_does_not_depend_on_the_members(cast, use_directory, readers):
    use_directory(**READERS)
    User.objects.bulk_create(User(username=name) for name in ("nina", "olaf", "piet"))

    def statements(*names):
        readers(*names)
        with CaptureQueriesContext(connection) as queries:
            sync()
        assert members() == {*names, "batch"}
        return len(queries)

    statements("dee")
    assert statements("dee", "nina") == statements("dee", "nina", "olaf", "piet", "ned") <= 30


def test_the_command_needs_a_directory(db, settings):
    settings.LDAP = None
    with pytest.raises(CommandError, match="LDAP_URI is not set"):
        sync()


def test_spellings_of_a_dn_are_equal():
    assert canonical_dn("CN=A  b , dc=X") == canonical_dn("cn=a B,DC=x") != canonical_dn("cn=ab,dc=x")
    assert canonical_dn("a=1+b=2,c=3") == canonical_dn("B=2+A=1, C=3")
    assert canonical_dn(r"cn=a\,b,dc=x") == canonical_dn(r"cn=a\2cb,dc=x") != canonical_dn("cn=a,cn=b,dc=x")
    with pytest.raises(DirectoryError):
        canonical_dn("nonsense")


MISSING = {"LDAP_DEACTIVATE_MISSING": "1", "LDAP_MAX_DEACTIVATED_PERCENT": "50"}


@pytest.fixture
def linked_accounts(cast, use_directory):
    """Link ned to the entry in the directory, and dee and out to entries that no longer exist."""
    options = use_directory(**MISSING, LDAP_ID_ATTRIBUTE="uid")
    for name, subject in (("ned", "ned"), ("dee", "the-first-dee"), ("out", "out")):
        SocialAccount.objects.create(user=cast[name], provider="ldap", uid=subject)
    # linked to another provider only
    SocialAccount.objects.create(user=cast["aud"], provider="corp", uid="aud")
    return options


def active():
    return set(User.objects.filter(is_active=True).values_list("username", flat=True))


def test_accounts_that_the_directory_no_longer_has_are_deactivated(linked_accounts):
    before, names = database_state(), active()
    output = sync(dry_run=True)
    assert (
        "user:dee: deactivated, because the directory no longer has the user\nuser:out: deactivated" in output
    )
    assert database_state() == before
    sync()
    assert names - active() == {"dee", "out"}
    assert [line[:2] for line in lines_after(before[0])] == [
        ("user-deactivate", "user:dee"),
        ("user-deactivate", "user:out"),
    ]
    assert "deactivated" not in sync()


def test_accounts_are_deactivated_only_if_configured(linked_accounts, use_directory):
    use_directory(LDAP_ID_ATTRIBUTE="uid")
    before = database_state()
    assert "deactivated" not in sync() and database_state() == before


def test_all_accounts_are_never_deactivated_without_an_option(linked_accounts, cast, use_directory):
    before, names = database_state(), active()
    # another attribute as identifier: no link matches
    use_directory(**MISSING, LDAP_ID_ATTRIBUTE="mail")
    with pytest.raises(
        CommandError, match="3 of 3 accounts of the directory would be deactivated, more than 50 %"
    ):
        sync()
    assert database_state() == before
    sync(max_deactivated_percent=100)
    assert names - active() == {"ned", "dee", "out"}


def test_deactivating_a_large_share_needs_an_option(linked_accounts):
    SocialAccount.objects.bulk_create(
        SocialAccount(user=user, provider="ldap", uid=user.username)
        for user in User.objects.bulk_create(User(username=f"gone{number}") for number in range(10))
    )
    before = database_state()
    with pytest.raises(
        CommandError, match="12 of 13 accounts of the directory would be deactivated, more than 50 %"
    ):
        sync(dry_run=True)
    with pytest.raises(CommandError, match="more than 92 %"):
        sync(max_deactivated_percent=92)
    assert database_state() == before
    assert "2 more users deactivated" not in sync(max_deactivated_percent=93) and "gone3" not in active()


def test_the_last_administrator_stays_active(linked_accounts, cast):
    User.objects.filter(username="ada").update(role=Role.ORDINARY)
    User.objects.filter(username="out").update(role=Role.ADMINISTRATOR)
    assert "not changed: user:out is the only active administrator" in sync()
    assert "out" in active() and "dee" not in active()


def test_a_binary_identifier_is_compared_in_hexadecimal_digits():
    assert (subject_text(b"\xff\x00"), subject_text(b"abc"), subject_text("abc")) == ("ff00", "abc", "abc")
