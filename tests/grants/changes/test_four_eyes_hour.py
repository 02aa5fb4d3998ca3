"""Many small changes, the activation of a generation, and commands need a second person too."""

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from authzconsole.common.tokens import create_token
from entities.address import parse_address
from grants.active_generation import active_generation, propose_generation
from grants.authority.break_glass import start_break_glass
from grants.authority.four_eyes import recent_change_count
from grants.changes import Shown
from grants.errors import SecondPersonRequired
from grants.journal import Author
from grants.models import JournalLine, Role, User
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import AllOf
from grants.principals.services import renew_user_password
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.requests.decide import Approval, approve_request
from tests.support.authors import author_named, database_state
from tests.support.cast import create_sample_tenant
from tests.support.changes import (
    activate_generation,
    add_grant,
    add_member,
    add_user,
    apply_plan,
    change_members,
    create_plan_from_changes,
    issue_token,
    remove_member,
    rename_user,
    revoke_grant,
    set_user_active,
)

pytestmark = pytest.mark.django_db
ORDERS, CUSTOMERS = parse_address("dataset:sales.orders"), parse_address("dataset:sales.customers")
HOUR = "last hour, more than 3 items"


@pytest.fixture(autouse=True)
def cast(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS, settings.BREAK_GLASS_ACCOUNTS = True, 3, ["bob"]
    cast = create_sample_tenant()
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)
    return cast


def grant(name: str, privilege: str = "READ", address=ORDERS, *, by: Author | None = None):
    return add_grant(f"user:{name}", address, privilege, author=by or author_named("ada"))


def small_plan(by: Author, name: str, privilege: str = "READ"):
    return create_plan_from_changes(author=by, grant=[(f"user:{name}", CUSTOMERS, privilege)], revoke=[])


def test_small_changes_in_a_row_need_a_second_person_above_the_limit():
    for privilege in ("READ", "WRITE", "EXECUTE"):
        grant("out", privilege)
    before = database_state()
    for change in (
        lambda: grant("grp", "WRITE"),
        lambda: add_member("dee", "operators", author=author_named("ada")),
        lambda: remove_member("grp", "operators", author=author_named("ada")),
        lambda: set_user_active("ina", author=author_named("ada"), active=True),
        lambda: revoke_grant("user:out", ORDERS, "READ", author=author_named("ada")),
    ):
        with pytest.raises(SecondPersonRequired, match=HOUR):
            change()
    assert database_state() == before
    # what changes nothing, ends the access of a user, or is of another person
    assert not grant("out", "READ").has_changed
    assert set_user_active("dee", author=author_named("ada"), active=False).has_changed
    assert grant("grp", "WRITE", by=author_named("bob")).has_changed
    JournalLine.objects.update(at=timezone.now() - timedelta(hours=1, seconds=1))
    assert grant("grp", "EXECUTE").has_changed


def test_small_plans_count_if_the_same_person_made_them():
    for name, privilege in (("out", "READ"), ("out", "WRITE"), ("out", "EXECUTE")):
        apply_plan(small_plan(author_named("ada"), name, privilege), author=author_named("ada"))
    plan = small_plan(author_named("ada"), "grp")
    with pytest.raises(SecondPersonRequired, match=HOUR):
        apply_plan(plan, author=author_named("ada"))
    # with a second person, plans count for neither
    for name, privilege in (("grp", "WRITE"), ("grp", "EXECUTE"), ("dee", "WRITE"), ("dee", "EXECUTE")):
        apply_plan(small_plan(author_named("ada"), name, privilege), author=author_named("bob"))
    assert recent_change_count({author_named("bob").user_id}) == 0
    assert apply_plan(small_plan(author_named("ada"), "grp"), author=author_named("bob")).state == "applied"


def test_approvals_of_requests_do_not_count(cast):
    for privilege in ("READ", "WRITE", "EXECUTE"):
        request = create_request(
            author=author_named("out"), draft=RequestDraft("close", [WantedAccess(ORDERS, privilege)])
        )
        approve_request(
            author=author_named("ada"),
            request_id=request.pk,
            approval=Approval({1: ""}, shown=Shown(accepts_beyond=True)),
        )
    assert recent_change_count({cast["ada"].pk}) == 0 and grant("grp", "WRITE").has_changed


def test_other_accounts_tokens_and_names_of_the_person_count(cast):
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    token = create_token(
        author=author_named("ada"), owner="robot", name="t", scopes=["administer"], days=1
    ).token
    robot = author_named("robot", token=token.pk, issuer=token.issued_by)
    grant("out", "READ", by=robot)
    grant("out", "WRITE", by=robot)
    grant("out", "EXECUTE")
    with pytest.raises(SecondPersonRequired, match=HOUR):
        grant("grp", "WRITE")
    rename_user(name="ada", new_name="eve")
    for impostor in (author_named("eve"), robot):
        with pytest.raises(SecondPersonRequired, match=HOUR):
            grant("grp", "WRITE", by=impostor)
    # a plan that the person made with an account that it controls
    renew_user_password(author=author_named("eve"), name="bob")
    plan = small_plan(author_named("bob"), "grp")
    with pytest.raises(SecondPersonRequired, match=HOUR):
        apply_plan(plan, author=author_named("eve"))


def test_the_attack_one_person_splits_a_change_over_an_own_provisioning_token(cast):
    add_user("directory", is_service=True)
    token = create_token(
        author=author_named("ada"), owner="directory", name="t", scopes=["provision"], days=1
    ).token
    directory = author_named("directory", token=token.pk, issuer=token.issued_by, is_provisioner=True)
    for name in ("dee", "out", "ned"):
        change_members("operators", author=directory, added=[cast[name].pk])
    assert recent_change_count({cast["ada"].pk}) == 3
    for author in (directory, author_named("ada")):
        with pytest.raises(SecondPersonRequired, match=HOUR):
            change_members("operators", author=author, added=[cast["ina"].pk])
    # another person has an own limit, and a person who left the console none
    assert grant("out", by=author_named("bob")).has_changed


def test_a_directory_with_a_token_of_a_command_is_not_a_person(cast):
    add_user("directory", is_service=True)
    token = issue_token("directory", "provision").token
    directory = author_named("directory", token=token.pk, issuer=token.issued_by, is_provisioner=True)
    for name in ("dee", "out", "ned", "ina"):
        change_members("operators", author=directory, added=[cast[name].pk])
    assert recent_change_count({cast["ada"].pk}) == 0 and grant("out").has_changed


def test_break_glass_access_is_exempt():
    for privilege in ("READ", "WRITE", "EXECUTE"):
        grant("grp", privilege, CUSTOMERS, by=author_named("bob"))
    with pytest.raises(SecondPersonRequired, match=HOUR):
        grant("out", "WRITE", by=author_named("bob"))
    start_break_glass(author=author_named("bob"))
    assert grant("out", "WRITE", by=author_named("bob")).has_changed


def test_another_person_activates_a_proposed_generation(settings):
    settings.BREAK_GLASS_ACCOUNTS = []
    for name in ("ada", "bob"):
        with pytest.raises(SecondPersonRequired, match="one person cannot activate `core`"):
            activate_generation("core", author=author_named(name))
    assert propose_generation(author=author_named("ada"), name="core").has_changed
    with pytest.raises(SecondPersonRequired, match="because ada proposed it"):
        activate_generation("core", author=author_named("ada"))
    with pytest.raises(SecondPersonRequired, match="one person cannot activate `existing`"):
        activate_generation("existing", author=author_named("bob"))
    # a later proposal replaces it, and another name is the same person
    propose_generation(author=author_named("bob"), name="existing")
    with pytest.raises(SecondPersonRequired):
        activate_generation("core", author=author_named("bob"))
    rename_user(name="bob", new_name="rob")
    with pytest.raises(SecondPersonRequired):
        activate_generation("existing", author=author_named("rob"))
    propose_generation(author=author_named("ada"), name="existing")
    assert (
        activate_generation("existing", author=author_named("rob")).has_changed
        and active_generation().name == "existing"
    )
    with pytest.raises(SecondPersonRequired):
        activate_generation("final", author=author_named("ada"))
    propose_generation(author=author_named("ada"), name="final")
    JournalLine.objects.filter(action="generation-propose").update(at=timezone.now() - timedelta(days=8))
    with pytest.raises(SecondPersonRequired, match="propose it"):
        activate_generation("final", author=author_named("rob"))
    settings.FOUR_EYES = False
    assert activate_generation("final", author=author_named("ada")).has_changed


def test_a_proposal_is_of_the_rules_that_the_generation_had_then(monkeypatch):
    propose_generation(author=author_named("ada"), name="core")
    core = GENERATIONS["core"]
    write, read = core.policies["dataset", "write"], core.policies["dataset", "read"]

    def redefined(policy):
        return replace(core, policies=MappingProxyType({**core.policies, ("dataset", "write"): policy}))

    monkeypatch.setitem(
        GENERATIONS,
        "core",
        redefined(replace(write, requirement=AllOf((write.requirement, read.requirement)))),
    )
    with pytest.raises(SecondPersonRequired, match="have changed since ada proposed it"):
        activate_generation("core", author=author_named("bob"))
    monkeypatch.setitem(
        GENERATIONS, "core", redefined(replace(write, source=replace(write.source, row="corrected")))
    )
    assert activate_generation("core", author=author_named("bob")).has_changed


def test_an_account_that_got_the_name_of_the_proposer_does_not_hide_the_proposer(settings):
    settings.FOUR_EYES_ACCOUNT_HOURS, settings.NAME_REUSE_DAYS = 0, 0
    proposer = author_named("ada")
    propose_generation(author=proposer, name="core")
    rename_user(author=author_named("bob"), name="ada", new_name="eva")
    add_user("ada", author=author_named("bob"), role=Role.ADMINISTRATOR)
    with pytest.raises(SecondPersonRequired, match="another person must activate"):
        activate_generation("core", author=author_named("eva"))
    assert author_named("eva").user_id == proposer.user_id
    assert activate_generation("core", author=author_named("ada")).has_changed


def test_a_command_of_one_person_is_exempt_from_the_proposal():
    assert activate_generation("core").has_changed


def test_an_import_names_the_second_person(tmp_path, settings, capsys):
    file = tmp_path / "tenant.jsonl"
    file.write_text(
        '{"type":"grant","principal":"user:out","entity":"dataset:sales.orders","privileges":["ADMIN"]}\n'
    )
    call_command("import_tenant", str(file), "--dry-run")
    before = database_state()
    with pytest.raises(CommandError, match="--second-person NAME"):
        call_command("import_tenant", str(file))
    for name in ("nobody", "dee", "aud"):
        with pytest.raises(CommandError, match="not an active administrator"):
            call_command("import_tenant", str(file), "--second-person", name)
    assert database_state() == before
    call_command("import_tenant", str(file), "--second-person", "bob")
    assert JournalLine.objects.latest("revision").reason == "import of tenant.jsonl; agreed with bob"
    with pytest.raises(CommandError, match="--second-person NAME"):
        call_command(
            "plan_readiness", "--namespace", "sales", "--user", "out", "--apply", "--reason", "close"
        )
    settings.FOUR_EYES = False
    call_command("import_tenant", str(file))
