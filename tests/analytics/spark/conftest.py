import pytest

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import (
    ENTITIES,
    GRANTS,
    GROUPS,
    INACTIVE_USERS,
    MEMBERSHIPS,
    REVEALED,
    USERS,
)

# reason, granted_at, valid_until and pattern of a grant
DETAILS = ("", "2026-01-01T00:00:00Z", None, "")


@pytest.fixture(params=["small", "large"])
def build_input(spark, request):
    """Return a function that builds an AnalysisInput, for a tenant that is processed as a small or as a large
    one.

    entities: (id, kind, key, namespace_id, state). admin, other: (principal type, principal id, entity id) of
    grants of ADMIN, and of grants of another privilege.
    """

    def build(
        *,
        entities=(),
        users=(),
        groups=(),
        memberships=(),
        admin=(),
        other=(),
        generation="final",
        namespace="",
    ):
        def frame(table, rows):
            return spark.createDataFrame(list(rows), schema_of(table))

        grants = [(*grant, "ADMIN", *DETAILS) for grant in admin] + [
            (*grant, "READ", *DETAILS) for grant in other
        ]
        tables = Tables(
            entities=frame(
                ENTITIES,
                [
                    (pk, kind, key, None, namespace_id, None, state)
                    for pk, kind, key, namespace_id, state in entities
                ],
            ),
            users=frame(USERS, users),
            inactive_users=frame(INACTIVE_USERS, []),
            groups=frame(GROUPS, groups),
            memberships=frame(MEMBERSHIPS, [(*membership, None) for membership in memberships]),
            grants=frame(GRANTS, grants),
            revealed=frame(REVEALED, []),
            is_small=request.param == "small",
        )
        return AnalysisInput(tables, {"generation": generation, "namespace": namespace})

    return build
