"""Test that the replayed journal agrees with the tables, and that attacks on tables, lines and anchors are
detected.
"""

import io
import json
import socket
from types import SimpleNamespace

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from pyarrow.fs import FileSelector, S3FileSystem

from authzconsole.common.sign_in_methods import reset_factors, unlink_identity
from authzconsole.common.tokens import create_token, revoke_token
from authzconsole.models import ApiToken
from authzconsole.settings.sign_in import ProviderOptions
from authzconsole.web.accounts.providers.identities import Identity, sign_in_account
from entities.address import parse_address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import (
    ActiveGeneration,
    GroupGrant,
    JournalHead,
    JournalLine,
    NamespaceApprovers,
    Role,
    User,
    UserGrant,
)
from grants.principals.services import set_user_role
from grants.requests.approvers import set_namespace_approvers
from grants.tenant.import_document import import_tenant
from grants.verification.anchor import AnchorError, anchor_journal
from tests.support.authors import account
from tests.support.changes import (
    activate_generation,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    recreate_entity,
    register_entity,
    remove_group,
    remove_member,
    rename_group,
    revoke_grant,
    set_user_active,
)
from tests.support.factors import add_app, add_passkey, remove_factor, replace_recovery_codes

pytestmark = pytest.mark.django_db
OPERATOR = Author("the tests")
AGREES = "The tables contain what it says.\n"
DOCUMENT = """
{"type":"entity","id":"dataset:hr.salaries","state":"live","description":"Pay"}
{"type":"entity","id":"dataset:hr.old","state":"deleted"}
{"type":"user","name":"carol","active":false}
{"type":"user","name":"dave"}
{"type":"group","name":"clerks","members":["carol","dave"]}
{"type":"grant","principal":"group:clerks","entity":"dataset:hr.salaries","privileges":["READ","WRITE"]}
{"type":"grant","principal":"user:dave","entity":"dataset:hr.next","privileges":["ADMIN"]}
"""


def verify():
    out = io.StringIO()
    call_command("verify_journal", stdout=out)
    return out.getvalue()


def fault():
    with pytest.raises(CommandError) as refused:
        verify()
    return str(refused.value)


@pytest.fixture(scope="module")
def made_tenant(django_db_setup, django_db_blocker):
    """Make every kind of change that the journal describes, once. Each test changes it in a savepoint."""
    provider = ProviderOptions(protocol="oidc", name="x", link_existing="always", unknown_users="create")
    with (
        django_db_blocker.unblock(),
        override_settings(SIGN_IN_PROVIDERS={"oidc": provider}),
        transaction.atomic(),
    ):
        make_tenant()
        yield
        transaction.set_rollback(True)


@pytest.fixture
def tenant(made_tenant, db):
    pass


def make_tenant():
    for name in ("alice", "bob"):
        add_user(name)
    add_user("root", role=Role.ADMINISTRATOR, is_principal=False)
    add_user("robot", active=False, role=Role.AUDITOR, is_service=True)
    set_user_role(author=OPERATOR, name="bob", role=Role.AUDITOR)
    set_user_active("bob", active=False)
    add_group("readers")
    for name in ("alice", "bob"):
        add_member(name, "readers")
    remove_member("bob", "readers")
    for address in ("namespace:sales", "dataset:sales.orders", "dataset:sales.gone"):
        register_entity(address, creator="user:alice", generation="existing")
    delete_entity("dataset:sales.gone", generation="final")
    orders, planned = parse_address("dataset:sales.orders"), parse_address("dataset:sales.planned")
    change_grants(grant=[("group:readers", orders, Privilege.READ), ("user:alice", planned, Privilege.READ)])
    revoke_grant("user:alice", planned, Privilege.READ)
    delete_entity(planned)
    tokens = [
        create_token(
            author=OPERATOR, owner="root", name="x (number 9)", scopes=["read", "decide"], days=9
        ).token
        for _ in range(2)
    ]
    revoke_token(author=OPERATOR, number=tokens[1].pk)
    activate_generation("existing")
    for group in ("readers", "", "readers"):
        set_namespace_approvers(author=OPERATOR, namespace=parse_address("namespace:sales"), group=group)
    add_factors()
    identity = Identity("oidc", "a, subject: 7", {"preferred_username": "alice"})
    request = SimpleNamespace(id="", caller_id="")
    sign_in_account(request, identity)
    # an identity that was linked and unlinked
    link = sign_in_account(
        request, Identity("oidc", "b, subject: 8", {"preferred_username": "carol-of-oidc"})
    )
    unlink_identity(author=OPERATOR, user=link.user, pk=link.pk)
    for document in (DOCUMENT, DOCUMENT.replace("false", "true").replace('["carol","dave"]', '["dave"]')):
        import_tenant(stream=io.BytesIO(document.encode()), author=OPERATOR)


def append_line(action, principal, detail):
    append_to_journal(
        lock_journal(), [JournalEntry(action, principal=principal, detail=detail)], author=OPERATOR
    )


def add_factors():
    """Add factors, then remove some: root keeps an app, two passkeys with the same name and recovery codes;
    alice and bob keep none."""
    for name in ("root", "alice", "bob"):
        user = account(name)
        add_app(user)
        for _ in range(3):
            add_passkey(user, "a key, recovery codes")
        replace_recovery_codes(user)
        factors = (
            Authenticator.objects.filter(user=user)
            .exclude(type=Authenticator.Type.RECOVERY_CODES)
            .order_by("-pk")
        )
        for factor in factors if name == "alice" else factors[:1]:
            remove_factor(factor)
    reset_factors(author=OPERATOR, name="bob")


def test_every_kind_of_change_verifies(tenant):
    assert verify().endswith(AGREES)
    delete_entity("namespace:sales", generation="final")
    recreate_entity("namespace:sales")
    assert verify().endswith(AGREES)


def add_grant():
    template = GroupGrant.objects.first()
    UserGrant.objects.create(
        user=account("bob"),
        content_object=template.content_object,
        permission_id=template.permission_id,
        granted_at=timezone.now(),
    )


def change_digest():
    ApiToken.objects.filter(revoked_at=None).update(digest="0" * 64)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (
            add_grant,
            "the grant of READ on dataset:sales.orders to user:bob is `held` in the tables, but no line",
        ),
        (lambda: GroupGrant.objects.first().delete(), "but missing in the tables"),
        (
            lambda: account("bob").groups.add(Group.objects.get(name="readers")),
            "the membership of user:bob in group:readers is `held` in the tables, but line",
        ),
        (
            lambda: account("alice").groups.clear(),
            "the membership of user:alice in group:readers is `held` after",
        ),
        (
            lambda: User.objects.filter(username="alice").update(role=Role.ADMINISTRATOR),
            "the console role of user:alice is `administrator` in the tables, but `ordinary` after line 1 of the journal",
        ),
        (
            lambda: User.objects.filter(username="bob").update(is_active=True),
            "the status of user:bob is `active` in the tables",
        ),
        (
            lambda: User.objects.filter(username="root").update(is_service=True),
            "user:root as a service account is `yes`",
        ),
        (
            lambda: User.objects.create(username="eve"),
            "the status of user:eve is `active` in the tables, but no line",
        ),
        (lambda: Group.objects.create(name="new"), "group:new is `known` in the tables"),
        (
            lambda: Entity.objects.filter(key="sales.gone").update(state=State.LIVE),
            "the state of dataset:sales.gone is `live`",
        ),
        (
            lambda: Entity.objects.filter(key="hr.next").update(state=State.LIVE),
            "the state of dataset:hr.next is `live`",
        ),
        (lambda: ApiToken.objects.update(revoked_at=None), "the revocation of token"),
        (
            lambda: ApiToken.objects.update(owner=account("alice")),
            "is `user:alice, decide, read, until",
        ),
        (lambda: ApiToken.objects.update(scopes="administer"), "is `user:root, administer, until"),
        (change_digest, "the secret of token"),
        (
            lambda: ApiToken.objects.filter(revoked_at=None).update(is_unlimited=True),
            "to ask about all subjects is `yes` in the tables, but no line of the journal says so",
        ),
        (
            lambda: Authenticator.objects.filter(type="totp").delete(),
            "the authenticator app of user:root is `held` after",
        ),
        (
            lambda: Authenticator.objects.filter(type="recovery_codes").delete(),
            "the recovery codes of user:root is `held` after",
        ),
        (
            lambda: Authenticator.objects.filter(type="webauthn").first().delete(),
            "the number of passkeys of user:root is `1` in the tables, but `2` after line",
        ),
        (
            lambda: Authenticator.objects.filter(type="webauthn").delete(),
            "the number of passkeys of user:root is `2` after",
        ),
        (
            lambda: Authenticator.objects.create(user=account("bob"), type="totp", data={}),
            "the authenticator app of user:bob is `held` in the tables, but line",
        ),
        (
            lambda: SocialAccount.objects.all().delete(),
            "the account of the identity a, subject: 7 at oidc is `user:alice` after",
        ),
        (
            lambda: SocialAccount.objects.update(user=account("root")),
            "is `user:root` in the tables, but `user:alice`",
        ),
        (
            lambda: SocialAccount.objects.create(user=account("root"), provider="oidc", uid="8"),
            "the account of the identity 8 at oidc is `user:root` in the tables, but no line",
        ),
        (
            lambda: SocialAccount.objects.create(user=account("root"), provider="oidc", uid="b, subject: 8"),
            "the account of the identity b, subject: 8 at oidc is `user:root` in the tables, but line",
        ),
        (
            lambda: NamespaceApprovers.objects.create(
                namespace="hr", group=Group.objects.get(name="readers")
            ),
            "the group of approvers of namespace:hr is `group:readers` in the tables, but no line of the journal says so",
        ),
        (
            lambda: NamespaceApprovers.objects.update(group=Group.objects.get(name="clerks")),
            "the group of approvers of namespace:sales is `group:clerks` in the tables, but `group:readers` after line",
        ),
        (
            lambda: ActiveGeneration.objects.update(name="core"),
            "the active generation is `core` in the tables, but `existing`",
        ),
    ],
)
def test_the_attack_a_change_without_a_line_is_detected(tenant, attack, message):
    attack()
    assert message in fault()


def test_approvers_verify_after_their_group_was_renamed_and_removed(tenant):
    rename_group(author=OPERATOR, name="readers", new_name="approvers")
    assert verify().endswith(AGREES)
    remove_group("approvers", revokes_grants=True)
    assert not NamespaceApprovers.objects.exists() and verify().endswith(AGREES)


@pytest.mark.parametrize(("scopes", "is_allowed"), [("decide, read", True), ("read", False)])
def test_only_a_token_of_version_1_for_decisions_may_be_unlimited(tenant, scopes, is_allowed):
    until = timezone.now()
    token = ApiToken.objects.create(
        name="old",
        owner=account("alice"),
        digest="d" * 64,
        scopes=scopes.replace(",", ""),
        created_at=until,
        expires_at=until,
    )
    append_line("token-add", "user:alice", f"{token} for {scopes}, until {until:%Y-%m-%d}")
    assert verify().endswith(AGREES)
    ApiToken.objects.filter(pk=token.pk).update(is_unlimited=True)
    if is_allowed:
        assert verify().endswith(AGREES)
    else:
        assert f"the right of token {token.pk} to ask about all subjects is `yes`" in fault()


def test_the_attack_a_rewritten_line_and_a_grant_without_a_line_are_detected(tenant):
    """The attack of finding H3: every hash is computed again, also that of the head."""
    add_grant()
    previous = "0" * 64
    for line in JournalLine.objects.order_by("revision"):
        line.actor = "admin"
        line.hash = previous = line.hash_after(previous)
        line.save()
    JournalHead.objects.update(hash=previous)
    assert "line 1 was changed after it was written: its signature" in fault()


@pytest.fixture
def anchor(tmp_path, settings):
    settings.JOURNAL_ANCHOR = [f"file:{tmp_path / 'anchor'}"]
    return tmp_path / "anchor"


@pytest.fixture
def object_store(settings, monkeypatch):
    """Start an S3 server with a bucket that is the anchor, and yield its client."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "for-a-test")
    host, port = server.get_host_and_port()
    files = S3FileSystem(
        endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    files.create_dir("audit")
    settings.JOURNAL_ANCHOR = [
        f"s3://audit/console?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    ]
    yield files
    server.stop()


def test_the_head_is_anchored_once_and_compared(tenant, anchor):
    call_command("anchor_journal", stdout=io.StringIO())
    anchor_journal()
    add_group("more")
    anchor_journal()
    records = [json.loads(line) for line in anchor.read_text().splitlines()]
    head = JournalHead.objects.get()
    assert [record["revision"] for record in records] == [head.revision - 1, head.revision]
    assert records[-1]["hash"] == head.hash and records[-1]["mac"] == head.mac
    assert verify().endswith(AGREES)


def test_the_attack_an_old_copy_of_the_database_is_detected(tenant, anchor):
    """A complete older state, with a valid signature of its head, contradicts only the anchor."""
    old = JournalHead.objects.get()
    add_group("more")
    anchor_journal()
    JournalLine.objects.filter(revision__gt=old.revision).delete()
    Group.objects.filter(name="more").delete()
    old.save()
    assert f"has an anchor of line {old.revision + 1}, but the journal ends at line {old.revision}" in fault()
    with pytest.raises(AnchorError, match="but the journal ends at line"):
        anchor_journal()
    add_group("other")
    assert f"line {old.revision + 1} differs from its anchor" in fault()
    with pytest.raises(AnchorError, match="another hash"):
        anchor_journal()


def test_a_broken_anchor_file_is_named(tenant, anchor):
    anchor.write_text("{}\n")
    assert "line 1 of" in fault() and "is not an anchor" in fault()


def test_an_object_store_keeps_one_object_per_head_and_is_compared(tenant, object_store):
    old = JournalHead.objects.get()
    anchor_journal()
    add_group("more")
    anchor_journal()
    anchor_journal()
    objects = object_store.get_file_info(FileSelector("audit/console", recursive=True))
    revisions = [int(file.base_name[:20]) for file in objects if file.is_file]
    assert revisions == [old.revision, old.revision + 1] and verify().endswith(AGREES)
    JournalLine.objects.filter(revision__gt=old.revision).delete()
    Group.objects.filter(name="more").delete()
    old.save()
    assert (
        f"s3://audit/console has an anchor of line {old.revision + 1}, but the journal ends at line"
        in fault()
    )
    with pytest.raises(AnchorError, match="s3://audit/console has line"):
        anchor_journal()


def test_the_attack_a_removed_anchor_is_detected(tenant, anchor):
    anchor_journal()
    assert verify().endswith(AGREES)
    anchor.unlink()
    assert f"{anchor} has no anchor: it was removed, or nothing was anchored yet" in fault()


def test_an_object_store_that_refuses_the_anchor_is_named(tenant, object_store, settings):
    settings.JOURNAL_ANCHOR = [settings.JOURNAL_ANCHOR[0].replace("audit/console", "missing/console")]
    with pytest.raises(AnchorError, match="s3://missing/console cannot be written"):
        anchor_journal()
    settings.JOURNAL_ANCHOR = ["s3://audit/console?timeout=1"]
    with pytest.raises(AnchorError, match="s3://audit/console: Unexpected query parameter"):
        anchor_journal()


def test_the_head_is_sent_to_syslog(tenant, settings):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        settings.JOURNAL_ANCHOR = [f"syslog:127.0.0.1:{server.getsockname()[1]}"]
        anchor_journal()
        assert JournalHead.objects.get().hash in server.recv(2_000).decode()


def test_the_verification_keeps_little_in_memory_and_reads_each_table_once(
    tenant, django_assert_max_num_queries
):
    # the last one stores the result for the page Status
    with django_assert_max_num_queries(34):
        verify()
