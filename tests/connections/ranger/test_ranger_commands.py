"""`manage.py import_ranger` makes the grants of policies, and `export_ranger` writes them as policies again."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from grants.models import JournalLine, all_grants
from tests.connections.ranger.policy_files import NOTHING_BELOW, document, item, policy
from tests.support.changes import add_user

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


def lines(output: str) -> list[tuple[str, int]]:
    return [(line["policy"], line["id"]) for line in map(json.loads, output.splitlines())]


def test_a_line_names_each_policy_with_a_name_that_cannot_be_added(policies):
    """Two new names may also look like each other."""
    add_user("bob")
    names = ("ann", "Ann", "Bob", "bob\u200b")
    entries = [policy(n, name=f"p{i}", number=i, namespace="a", dataset="b") for i, n in enumerate(names)]
    output, errors = run("import_ranger", policies(*entries))
    assert lines(output) == [("p0", 0), ("p2", 2), ("p3", 3)]
    assert "`ann` looks like user:Ann, which the console does not know either" in output
    assert (stored(), errors) == ({"user:Ann READ dataset:a.b"}, "2 changes made\n")


def schedule(start: str, end: str, zone: str = "UTC") -> dict:
    return {
        "validitySchedules": [
            {"startTime": f"{start} 00:00:00", "endTime": f"{end} 00:00:00", "timeZone": zone}
        ]
    }


def test_a_line_names_each_policy_with_another_period_than_the_one_that_is_kept(policies):
    periods = [("2098/01/01", "2098/03/01"), ("2098/02/01", "2098/04/01"), ("2098/01/01", "2098/05/01")]
    widest = [
        policy("ann", name=f"p{i}", number=i, namespace="a", dataset="b", **schedule(*period))
        for i, period in enumerate(periods)
    ]
    assert run("import_ranger", policies(*widest), "--dry-run") == ("", "2 changes would be made\n")
    output, _ = run("import_ranger", policies(*widest[:2]))
    assert lines(output) == [("p1", 1)] and "another policy gives it in another period" in output


@pytest.mark.parametrize(
    ("end", "zone"),
    [("2098/01/01", "Mars/North"), ("2098/01/01", "../UTC"), ("2098-01-01", "UTC"), ("soon", "")],
)
def test_a_period_that_cannot_be_read_does_not_become_a_grant_without_an_end(policies, end, zone):
    output, _ = run(
        "import_ranger",
        policies(
            policy("ann", name="p", number=1, namespace="a", dataset="b", **schedule("2097/01/01", end, zone))
        ),
    )
    assert lines(output) == [("p", 1)] and "a time or a zone that cannot be read" in output
    assert stored() == set()


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
