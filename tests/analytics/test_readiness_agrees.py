"""Spark's delete-readiness, the immediate answer in SQL and a plain reference agree on random tenants."""

import pytest

from analytics.analyses import analysis_by_name
from analytics.computation import Progress
from analytics.results.read import result_batches
from analytics.runs.execution import compute_report
from analytics.spark.engine.rules import namespace_deletion_requirement
from entities.models import State
from entities.vocabulary import Privilege
from grants.evaluation.engine import check
from grants.lifecycle.readiness import namespace_readiness
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.analyses import LARGE, lower_limits
from tests.support.expected_generations import EXPECTED
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

READINESS = analysis_by_name("delete-readiness")


def spark_readiness(generation):
    """Return {(namespace, user): (required, held, ready, missing addresses)} from Spark."""
    compute_report(
        analysis=READINESS,
        options={"generation": generation},
        folder="report",
        writes_detail=lambda rows: True,
        progress=Progress(),
    )
    missing = {}
    for row in table_rows(READINESS.detail.table):
        missing.setdefault((row["namespace"], row["user"]), []).append(row["entity"])
    rows = {(r["namespace"], r["user"]): r for r in table_rows(READINESS.rows)}
    assert list(rows) == sorted(rows, key=lambda key: [part.encode() for part in key])
    return {key: (r["required"], r["held"], r["ready"], missing.get(key, [])) for key, r in rows.items()}


def table_rows(table):
    return [row for batch in result_batches(table, "report") for row in batch.to_pylist()]


def reference_readiness(tenant, generation):
    """Return the same, computed with loops over lists."""
    readiness = {}
    for namespace, state in tenant.entities.items():
        if namespace.kind != "namespace" or state != State.LIVE:
            continue
        inside = [a for a in tenant.entities if a.namespace == namespace]
        live = [a for a in inside if tenant.entities[a] == State.LIVE]
        required = live if EXPECTED[generation].deleting_counts_content else [namespace]
        for user in tenant.users:
            holders = tenant.holders("user", user) or []
            admin = {
                a for a in inside if any((holder, a, Privilege.ADMIN) in tenant.grants for holder in holders)
            }
            if admin:
                missing = sorted((str(a) for a in required if a not in admin), key=str.encode)
                readiness[namespace.key, user] = (
                    len(required),
                    len(required) - len(missing),
                    not missing,
                    missing,
                )
    return readiness


@pytest.mark.parametrize("seed", range(5))
def test_spark_sql_and_the_reference_agree_in_every_generation(spark, settings, tmp_path, monkeypatch, seed):
    # the last tenants use the settings of a large tenant
    is_large = seed > 2
    if is_large:
        monkeypatch.setattr("analytics.computation.SMALL_SNAPSHOT_BYTES", LARGE)
        lower_limits(monkeypatch)
    settings.SNAPSHOT_URI = str(tmp_path)
    tenant = random_tenant(seed)
    store_tenant(tenant)
    users = {user.username: user for user in User.objects.all()}
    rows_by_requirement = {}
    for generation in GENERATIONS.values():
        # the tables of two generations with the same requirement are equal; for a large tenant they are
        # computed once
        requirement = namespace_deletion_requirement(generation.name)
        if not is_large or requirement not in rows_by_requirement:
            rows_by_requirement[requirement] = spark_readiness(generation.name)
        rows = rows_by_requirement[requirement]
        assert rows == reference_readiness(tenant, generation.name)
        for namespace in [
            a for a, state in tenant.entities.items() if a.kind == "namespace" and state == State.LIVE
        ]:
            for name, user in users.items():
                is_permitted = check(
                    Question("user", name, "delete", namespace, generation.name)
                ).is_permitted
                row = rows.get((namespace.key, name))
                assert is_permitted == (row is not None and row[2]), (namespace, name)
                if row is not None:
                    sql_readiness = namespace_readiness(
                        namespace, user, generation, max_listed=len(tenant.entities)
                    )
                    missing = sorted(
                        (str(address) for address, _ in sql_readiness.missing_grants), key=str.encode
                    )
                    assert (
                        sql_readiness.required_count,
                        sql_readiness.held_count,
                        sql_readiness.is_ready,
                        missing,
                    ) == row, (namespace, name)


def test_the_random_tenants_contain_the_cases_that_matter():
    """Without these cases, the comparison would prove little."""
    tenants = [random_tenant(seed) for seed in range(5)]
    rows = [row for tenant in tenants for row in reference_readiness(tenant, "final").values()]
    assert any(ready for _, _, ready, _ in rows) and any(not ready for _, _, ready, _ in rows)
    assert any((False, True) == standing for tenant in tenants for standing in tenant.users.values())
    assert any((True, False) == standing for tenant in tenants for standing in tenant.users.values())
