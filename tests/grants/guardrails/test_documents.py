"""Guardrails and their exceptions are lines of tenant documents, and imports are checked."""

import pytest

from grants.errors import GuardrailHolds
from grants.models import Guardrail, GuardrailException
from grants.verification import first_fault
from tests.grants.guardrails.test_rules import FORMS
from tests.support.authors import database_state
from tests.support.changes import add_grant
from tests.support.guardrails import FORBID, add_guardrail
from tests.support.tenant_documents import (
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    refused_import,
    user,
)

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
EXCEPTION = {
    "principal": "user:sofia.lindqvist",
    "within": "dataset:finance.payments",
    "owner": "sofia.lindqvist",
    "valid_until": "2099-01-01T00:00:00Z",
    "reason": "migration",
}
LINES = [{"type": "guardrail", "name": f"g{number}", **form} for number, form in enumerate(FORMS)]
PLACES = [
    entity("dataset:finance.payments"),
    entity("application:finance.approval"),
    entity(ORDERS),
    group("contractors", "sofia.lindqvist"),
    user("sofia.lindqvist"),
    grant("group:contractors", "dataset:finance.payments", "WRITE"),
]


def test_export_import_export_gives_the_same_bytes_although_guardrails_are_violated():
    report = import_lines(*PLACES, LINES[0] | {"exceptions": [EXCEPTION]}, *LINES[1:])
    assert any("guardrail g2 is violated already" in warning for warning in report.warnings)
    assert not import_lines(export_bytes()).changes
    first = export_bytes()
    assert export_lines()[-4:] == [LINES[0] | {"exceptions": [EXCEPTION]}, *LINES[1:]]
    assert first_fault() is None
    empty_database()
    import_lines(first)
    assert export_bytes() == first and first_fault() is None


def test_an_import_that_adds_a_violation_is_refused_or_warned_of(cast):
    add_guardrail("no-writers", FORBID)
    before = database_state()
    with pytest.raises(GuardrailHolds, match="user:dee would hold WRITE"):
        import_lines(grant("user:dee", ORDERS, "WRITE"))
    with pytest.raises(GuardrailHolds):
        import_lines(grant("user:dee", ORDERS, "WRITE"), dry_run=True)
    assert database_state() == before
    add_guardrail("no-writers", FORBID | {"level": "warn"})
    report = import_lines(grant("user:dee", ORDERS, "WRITE"))
    assert any("user:dee would hold WRITE" in warning for warning in report.warnings)
    assert first_fault() is None
    import_lines(grant("user:dee", ORDERS, "WRITE"))


def test_a_line_changes_a_guardrail_and_replaces_its_exceptions(cast):
    add_grant("user:dee", ORDERS, "WRITE")
    line = {"type": "guardrail", "name": "no-writers", **FORBID}
    exception = {"owner": "ada", "valid_until": "2099-01-01T00:00:00Z", "reason": "because"}
    import_lines(line | {"exceptions": [exception]})
    assert GuardrailException.objects.get().reason == "because"
    import_lines(line | {"level": "warn"})
    assert Guardrail.objects.get().level == "warn" and GuardrailException.objects.exists()
    import_lines(line | {"exceptions": []})
    assert not GuardrailException.objects.exists() and first_fault() is None


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"exceptions": {}}, "it must be a list"),
        ({"exceptions": [{}]}, "entry 1: `owner`: it is missing"),
        ({"exceptions": [EXCEPTION | {"valid_until": "soon"}]}, "entry 1: `valid_until`"),
        ({"exceptions": [EXCEPTION | {"reason": " "}]}, "entry 1: `reason`: it is empty"),
        ({"exceptions": [EXCEPTION | {"x": 1}]}, "`x` is not a member"),
        ({"exceptions": [EXCEPTION, EXCEPTION]}, "entry 2: it is listed twice"),
        ({"exceptions": [EXCEPTION]}, "user:sofia.lindqvist does not exist"),
        ({"level": "no"}, "`level`: `no` is not one of"),
        ({"forbid": FORBID["forbid"] | {"within": "namespace:none"}}, "`forbid.within`: namespace:none"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_member(members, reason, cast):
    line = {"type": "guardrail", "name": "x", **FORBID}
    error = refused_import(entity("namespace:other"), line | members)
    assert "line 2: " in str(error) and reason in str(error)
