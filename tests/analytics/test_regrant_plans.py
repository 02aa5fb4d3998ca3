"""A plan from a policy-impact report keeps all permissions under the other generation with the fewest grants."""

import dataclasses
import shutil
from functools import partial
from itertools import permutations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client

from analytics import regrant_plans
from analytics.analyses import AnalysisError
from analytics.lost_permissions import ROWS_PER_BATCH, LostPermissions
from entities.address import parse_address
from entities.models import State
from entities.vocabulary import KINDS
from grants.errors import PlanError, StaleBase
from grants.journal import current_revision
from grants.models import Plan, Role, User
from grants.plans.regrants.compute import Prefer
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.authors import COMMAND, all_grants
from tests.support.cast import create_sample_tenant
from tests.support.changes import activate_generation, apply_plan, change_grants, renew_plan, revoke_grant
from tests.support.random_tenants import random_tenant, reference_is_permitted, seeds, store_tenant
from tests.support.reports import create_report, write_report

pytestmark = pytest.mark.django_db

# most tests keep everything; tests/grants/plans/regrants covers grants without side effects
create_regrant_plan = partial(regrant_plans.regrant_plan.create, prefer=Prefer.FEWEST)


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


def differences(tenant, before, after):
    """Yield the rows of the detail table as Spark writes them, from the plain reference."""
    for user in sorted(name for name, standing in tenant.users.items() if standing == (True, True)):
        for address in sorted((a for a, state in tenant.entities.items() if state == State.LIVE), key=str):
            for operation in sorted(KINDS[address.kind].operations):
                if not all(GENERATIONS[g].policy(address.kind, operation).has_rule for g in (before, after)):
                    continue
                results = [
                    reference_is_permitted(tenant, Question("user", user, operation, address, g))
                    for g in (before, after)
                ]
                if results[0] != results[1]:
                    yield user, str(address), operation, *results


def policy_impact_run(storage, tenant, before, after):
    """Return (a done run with the reference's rows, these rows)."""
    rows = list(differences(tenant, before, after))
    run = create_report(
        storage,
        {"rows": [], "operations": [], "detail": rows},
        analysis="policy-impact",
        revision=current_revision(),
        options={"generation": before, "to_generation": after},
        summary={"detail_is_written": True},
    )
    return run, rows


@pytest.mark.parametrize("seed", seeds([1, 4]))
def test_after_the_plan_no_user_loses_a_permission(seed, storage):
    tenant, kept = random_tenant(seed), 0
    store_tenant(tenant)
    for before, after in permutations(GENERATIONS, 2):
        run, rows = policy_impact_run(storage, tenant, before, after)
        lost = [row for row in rows if row[3]]
        if not lost:
            with pytest.raises(PlanError, match="nothing is lost"):
                create_regrant_plan(author=COMMAND, run=run)
            continue
        plan = create_regrant_plan(author=COMMAND, run=run)
        items = {(row.principal, row.address, row.privilege) for row in plan.items.all()}
        assert (
            not items & tenant.grants and plan.effect["already"] == 0 and plan.recipe["answers"] == len(lost)
        )
        granted = dataclasses.replace(tenant, grants=tenant.grants | items)
        assert all(
            reference_is_permitted(granted, Question("user", user, operation, parse_address(entity), after))
            for user, entity, operation, *_ in lost
        )
        kept += len(lost)
    assert kept > 100


@pytest.fixture
def report(storage):
    """Return a policy-impact run from existing to final, where users lose what ADMIN on a namespace permits
    inside it.
    """
    create_sample_tenant()
    change_grants(
        grant=[
            ("user:dee", "namespace:hr", "ADMIN"),
            ("user:grp", "namespace:hr", "ADMIN"),
        ]
    )
    rows = [
        (user, entity, operation, True, False)
        for user in ("dee", "grp")
        for entity, operation in (
            ("dataset:hr.salaries", "drop"),
            ("dataset:hr.salaries", "truncate"),
            ("namespace:hr", "delete"),
        )
    ]
    gained = ("ned", "dataset:sales.orders", "get", False, True)
    return create_report(
        storage,
        {"rows": [], "operations": [], "detail": [*rows, gained]},
        analysis="policy-impact",
        revision=current_revision(),
        summary={"detail_is_written": True},
        options={"generation": "existing", "to_generation": "final"},
    )


def items(plan):
    return [(row.principal, str(row.address), str(row.privilege)) for row in plan.items.order_by("position")]


def test_permissions_that_share_a_grant_need_it_once(report):
    plan = create_regrant_plan(author=COMMAND, run=report)
    assert items(plan) == [
        ("user:dee", "dataset:hr.salaries", "ADMIN"),
        ("user:grp", "dataset:hr.salaries", "ADMIN"),
    ]
    assert plan.recipe["note"] == (
        "It keeps 6 permissions that would be lost. There is no other way to keep them: it is the "
        "smallest set of grants."
    )
    assert plan.title == "Keep current permissions, from existing to final"
    activate_generation("core")
    apply_plan(plan)
    assert ("user:grp", "dataset:hr.salaries", "ADMIN") in all_grants()


@pytest.mark.parametrize(
    ("scope", "principals"),
    [
        ({"user": "dee"}, ["user:dee"]),
        ({"group": "operators"}, ["user:grp"]),
        ({"namespace": "hr"}, ["user:dee", "user:grp"]),
        ({"namespace": "sales"}, None),
        ({"user": "ned"}, None),
        ({"user": "dee", "group": "operators"}, None),
    ],
)
def test_a_regrant_plan_can_be_limited_to_a_user_group_or_namespace(report, scope, principals):
    if principals is None:
        with pytest.raises(PlanError, match="nothing is lost, (by|in)"):
            create_regrant_plan(author=COMMAND, run=report, **scope)
    else:
        assert [
            principal for principal, *_ in items(create_regrant_plan(author=COMMAND, run=report, **scope))
        ] == principals


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ({"user": "x"}, "user:x does not exist"),
        ({"group": "x"}, "group:x does not exist"),
    ],
)
def test_an_unknown_user_or_group_is_refused(report, scope, message):
    with pytest.raises(PlanError, match=message):
        create_regrant_plan(author=COMMAND, run=report, **scope)


def test_an_outdated_report_makes_no_plan_and_its_earlier_plan_is_stale(report):
    plan = create_regrant_plan(author=COMMAND, run=report)
    revoke_grant("user:grp", "namespace:hr", "ADMIN")
    with pytest.raises(
        PlanError, match=r"the data has changed since: revision \d+ .*; run policy-impact again"
    ):
        create_regrant_plan(author=COMMAND, run=report)
    with pytest.raises(StaleBase):
        apply_plan(plan)
    with pytest.raises(PlanError, match="was created from the report of an analysis: run the analysis again"):
        renew_plan(plan)


def test_a_run_without_a_usable_report_is_refused_with_a_reason(report, storage):
    report.summary = {"detail_is_written": False}
    with pytest.raises(AnalysisError, match=r"run \d+ has no detail"):
        create_regrant_plan(author=COMMAND, run=report)
    report.state = "running"
    with pytest.raises(AnalysisError, match="is running: it has no report"):
        create_regrant_plan(author=COMMAND, run=report)
    with pytest.raises(AnalysisError, match="only a report of policy-impact"):
        create_regrant_plan(author=COMMAND, run=create_report(storage, {"rows": []}))


def test_a_plan_over_the_item_limit_is_refused(report, monkeypatch):
    monkeypatch.setattr("analytics.regrant_plans.MAX_PLAN_ITEMS", 1)
    with pytest.raises(PlanError, match="which is the limit of a plan"):
        create_regrant_plan(author=COMMAND, run=report)
    monkeypatch.setattr("analytics.regrant_plans.MAX_LOST_PERMISSIONS", 5)
    monkeypatch.setattr("analytics.regrant_plans.MAX_PLAN_ITEMS", 100)
    with pytest.raises(PlanError, match="more than 5 permissions"):
        create_regrant_plan(author=COMMAND, run=report)
    assert not Plan.objects.exists()


def add_rows(storage, report, *rows):
    """Add rows to the Parquet file of the detail table, as an attacker with access to the storage would."""
    path = storage / report.result_path / "detail" / "part-0.parquet"
    table = pq.read_table(path)
    added = [dict(zip(table.column_names, row, strict=True)) for row in rows]
    pq.write_table(pa.concat_tables([table, pa.Table.from_pylist(added, table.schema)]), path)


FORGED_ROWS = {
    "never permitted": ("ned", "securekey:sales.signing", "delete", True, False),
    "still permitted": ("ned", "dataset:sales.orders", "read", True, False),
    "unknown user": ("mallory", "securekey:sales.signing", "delete", True, False),
    "not registered": ("dee", "dataset:hr.secrets", "drop", True, False),
    "bare privilege": ("dee", "namespace:hr", "ADMIN", True, False),
    "no such operation": ("dee", "namespace:hr", "explode", True, False),
    "no address": ("dee", "???", "drop", True, False),
}


@pytest.mark.parametrize("forgery", FORGED_ROWS)
def test_a_forged_row_of_a_report_grants_nothing(report, storage, forgery, caplog):
    grants = items(create_regrant_plan(author=COMMAND, run=report))
    add_rows(storage, report, FORGED_ROWS[forgery])
    client = Client()
    client.force_login(User.objects.create_user("root", role=Role.ADMINISTRATOR, is_principal=False))
    page = client.post(f"/plans/policy-impact/{report.pk}", {"prefer": "fewest"}, follow=True)
    plan = Plan.objects.latest("pk")
    assert items(plan) == grants and plan.recipe["left_out"] == 1 and plan.recipe["answers"] == 6
    assert "Left out: 1 row of the report that the rule engine does not confirm" in page.content.decode()
    assert "does not confirm 1 rows of the report" in caplog.text


def test_a_report_with_forged_rows_only_makes_no_plan(report, storage):
    shutil.rmtree(storage / report.result_path)
    write_report(storage, report, {"detail": [FORGED_ROWS["never permitted"]]})
    with pytest.raises(
        PlanError,
        match="the rule engine confirms none of the 1 lost permission of the report: the report may",
    ):
        create_regrant_plan(author=COMMAND, run=report)


def test_the_rows_of_a_report_are_confirmed_with_a_bounded_number_of_statements(
    report, django_assert_max_num_queries
):
    rows = [("dee", "dataset:hr.salaries", "drop")] * (2 * ROWS_PER_BATCH) + [
        ("dee", f"dataset:hr.{number}", "drop") for number in range(ROWS_PER_BATCH)
    ]
    permissions = LostPermissions(GENERATIONS["existing"], GENERATIONS["final"])
    with django_assert_max_num_queries(3 * 6):
        assert sum(1 for _ in permissions.confirmed_losses(rows)) == 2 * ROWS_PER_BATCH
    assert permissions.left_out == ROWS_PER_BATCH
