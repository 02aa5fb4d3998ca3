"""`manage.py import_ranger` makes the grants of policies, and `export_ranger` writes them as policies again."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from grants.models import JournalLine, all_grants
from tests.connections.ranger.policy_files import NOTHING_BELOW, document, item, policy

POLICIES = [
    policy("ann", "read write", number=1, namespace="sales", dataset="?*"),
    policy(
        number=2,
        name="admins",
        namespace="sales",
        artifact=NOTHING_BELOW,
        policyItems=[item(groups=["admins"])],
    ),
]


def run(name: str, *arguments: str) -> tuple[str, str]:
    output, errors = io.StringIO(), io.StringIO()
    call_command(name, *arguments, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def stored() -> set[str]:
    return {
        f"{principal} {privilege} {address}"
        for grants in all_grants()
        for principal, address, privilege in grants.grant_keys()
    }


@pytest.fixture
def policies(tmp_path, db):
    """Return a function that writes a file of policies and returns its path."""

    def write(*entries: dict) -> str:
        path = tmp_path / "policies.json"
        path.write_bytes(document(*entries))
        return str(path)

    return write


def test_an_import_adds_principals_and_grants_with_one_reason(policies):
    output, errors = run("import_ranger", policies(*POLICIES))
    assert stored() == {
        "user:ann READ dataset:sales.*",
        "user:ann WRITE dataset:sales.*",
        "group:admins READ namespace:sales",
    }
    assert (output, errors) == ("", "5 changes made\n")
    reasons = set(JournalLine.objects.filter(action="grant").values_list("reason", flat=True))
    assert reasons == {"import of policies.json from Ranger"}


def test_a_second_import_changes_nothing(policies):
    run("import_ranger", policies(*POLICIES))
    before = JournalLine.objects.count()
    run("import_ranger", policies(*POLICIES))
    assert JournalLine.objects.count() == before


def test_a_dry_run_changes_nothing(policies):
    run("import_ranger", policies(*POLICIES), "--dry-run")
    assert stored() == set()


def test_a_policy_that_is_not_taken_over_wholly_is_one_line(policies):
    denied = {"denyPolicyItems": [item("bob")], "validitySchedules": [{}, {}]}
    output, _ = run(
        "import_ranger", policies(policy("ann", number=7, name="odd", namespace="sales", **denied))
    )
    (line,) = map(json.loads, output.splitlines())
    assert (line["policy"], line["id"]) == ("odd", 7)
    assert "deny items" in line["reason"]
    assert "several validity schedules" in line["reason"]


def test_a_file_that_is_not_an_export_is_refused_with_exit_code_2(tmp_path, db):
    path = tmp_path / "page.json"
    path.write_text("<html>sign in</html>")
    with pytest.raises(CommandError, match="sign-in page") as refused:
        run("import_ranger", str(path))
    assert refused.value.returncode == 2


def test_export_import_export_writes_the_same_policies(policies, tmp_path):
    run("import_ranger", policies(*POLICIES))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert run("export_ranger", str(first)) == (f"2 policies written to {first}\n", "")
    run("import_ranger", str(first))
    run("export_ranger", str(second))
    assert second.read_text() == first.read_text()


def test_a_folder_is_no_file_to_export_to(db, tmp_path):
    with pytest.raises(CommandError, match="cannot be written"):
        run("export_ranger", str(tmp_path))
