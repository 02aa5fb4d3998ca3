import pytest

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import ENTITIES, GRANTS, GROUPS, MEMBERSHIPS, USERS


@pytest.fixture(params=["little", "large"])
def tenant_of(spark, request):
    """On the way of a small tenant and on that of a large one.

    Builds an analysis input from lines: entities as (id, kind, key, namespace_id, state), grants as (principal, id, entity_id).
    """

    def build(*, entities=(), users=(), groups=(), memberships=(), admin=(), other=(), generation="final", namespace=""):
        def frame(table, rows):
            return spark.createDataFrame(list(rows), schema_of(table))

        grants = [(*grant, "ADMIN", "") for grant in admin] + [(*grant, "READ", "") for grant in other]
        tables = Tables(
            entities=frame(ENTITIES, [(pk, kind, key, None, inside, None, state) for pk, kind, key, inside, state in entities]),
            users=frame(USERS, users),
            groups=frame(GROUPS, groups),
            memberships=frame(MEMBERSHIPS, memberships),
            grants=frame(GRANTS, grants),
            is_small=request.param == "little",
        )
        return AnalysisInput(tables, generation, namespace=namespace)

    return build
