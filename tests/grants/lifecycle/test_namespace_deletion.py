"""Test forecasts of namespace deletions: compare them with a simple reference on random tenants, in every
generation.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import State
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege
from grants.errors import LifecycleError
from grants.lifecycle.namespace_deletion import (
    DeletionVerdict,
    StepOutcome,
    deletion_forecast,
    undeletable_entities,
)
from grants.models import GroupGrant, UserGrant
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import is_group_text
from tests.support.authors import all_grants, is_permitted
from tests.support.cast import create_sample_tenant
from tests.support.changes import delete_entity
from tests.support.expected_generations import EXPECTED, Deletion
from tests.support.random_tenants import random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db

ORDER = ["application program", "dataset", "dataset_module", "stream", "artifact"]


@pytest.fixture(params=seeds(range(8)))
def tenant(request):
    tenant = random_tenant(request.param, has_later_kinds=True)
    store_tenant(tenant, has_periods=False)
    return tenant


def live_namespaces(tenant):
    return [a for a, state in tenant.entities.items() if a.kind == "namespace" and state == State.LIVE]


def expected_deletion(tenant, namespace, user, generation):
    """Return (deleted addresses, whether the deletion begins), computed by loops over lists."""
    holders = tenant.holders("user", user) or []

    def is_administered(address):
        return any((holder, address, Privilege.ADMIN) in tenant.grants for holder in holders)

    inside = [
        a
        for a, state in tenant.entities.items()
        if a.namespace == namespace and a != namespace and state == State.LIVE
    ]
    if not is_administered(namespace):
        return set(), False
    deletion = EXPECTED[generation].deletion
    if deletion == Deletion.ALL:
        return {*inside, namespace}, True
    if deletion == Deletion.ADMINISTERED:
        gone = {a for a in inside if is_administered(a.application if a.kind == "program" else a)}
        return (gone | {namespace} if len(gone) == len(inside) else gone), True
    gone = set()
    for kinds in [
        *(step.split() for step in ORDER),
        [kind for kind in KINDS if not any(kind in step.split() for step in ORDER)],
    ]:
        of_step = [a for a in inside if a.kind in kinds]
        if not all(map(is_administered, of_step)):
            return gone, True
        gone.update(of_step)
    return gone | {namespace}, True


@pytest.mark.parametrize("generation", GENERATIONS)
def test_forecast_agrees_with_the_reference(tenant, generation):
    for namespace in live_namespaces(tenant):
        for user in tenant.users:
            forecast = deletion_forecast(namespace, user, generation)
            deleted, begins = expected_deletion(tenant, namespace, user, generation)
            assert forecast.gone == len(deleted) and forecast.namespace_goes == (namespace in deleted), (
                namespace,
                user,
            )
            assert (forecast.verdict == DeletionVerdict.REFUSED) is (not begins)
            deleted_grants = [grant for grant in tenant.grants if grant[1] in deleted]
            removes = GENERATIONS[generation].deleting_removes_grants
            assert (forecast.grants_removed, forecast.grants_kept) == (len(deleted_grants), 0)[
                :: 1 if removes else -1
            ]
            if not removes:
                heirs = {
                    grant[0]
                    for grant in deleted_grants
                    if is_group_text(grant[0]) or tenant.users[grant[0].removeprefix("user:")] == (True, True)
                }
                assert forecast.heirs_users + forecast.heirs_groups == len(heirs)
                assert sum(row.grants for row in forecast.heirs) == len(deleted_grants)
                assert len(forecast.ghosts) == min(12, len(deleted_grants))
                assert {item.key for item in forecast.ghosts} <= set(deleted_grants)
            assert undeletable_entities(namespace, user, generation).count() == forecast.missing


def test_random_tenants_cover_every_verdict():
    """Otherwise the agreement with the reference would prove little."""
    covered = set()
    for seed in range(8):
        tenant = random_tenant(seed, has_later_kinds=True)
        for namespace in live_namespaces(tenant):
            for user in tenant.users:
                deleted, begins = expected_deletion(tenant, namespace, user, "final")
                covered.add((begins, namespace in deleted, bool(deleted)))
    assert covered == {(False, False, False), (True, False, False), (True, False, True), (True, True, True)}


@pytest.mark.parametrize(
    "generation", [name for name in EXPECTED if EXPECTED[name].deletion != Deletion.ADMINISTERED]
)
def test_deletion_is_complete_exactly_where_it_is_permitted(tenant, generation):
    """Generations that delete entities one by one are excluded, because there the decision is about the
    namespace alone.
    """
    for namespace in live_namespaces(tenant):
        for user in tenant.users:
            allowed = is_permitted(user, "delete", namespace, generation)
            assert (
                deletion_forecast(namespace, user, generation).verdict == DeletionVerdict.COMPLETE
            ) is allowed


def test_forecast_of_a_complete_deletion_matches_the_actual_deletion(tenant):
    for namespace in live_namespaces(tenant):
        for user in tenant.users:
            forecast = deletion_forecast(namespace, user, "final")
            if forecast.verdict == DeletionVerdict.COMPLETE:
                before = all_grants()
                delete_entity(namespace, generation="final")
                assert entity_at(namespace).state == State.DELETED and all_grants() == before
                gone = {
                    "content_object__namespace__key": namespace.key,
                    "content_object__state": State.DELETED,
                }
                ghosts = UserGrant.objects.filter(**gone).count() + GroupGrant.objects.filter(**gone).count()
                assert ghosts >= forecast.grants_kept
                return


def test_every_generation_cites_the_source_of_its_deletion_rules():
    for generation in GENERATIONS.values():
        assert generation.deletion.source.seed == EXPECTED[generation.name].deletion_document
        assert generation.deletion.source.note


@pytest.fixture
def sales(db):
    create_sample_tenant()
    UserGrant.objects.filter(user__username="ned", content_object__key="sales.customers").delete()
    return parse_address("namespace:sales")


def outcomes(forecast):
    return {step.kinds[0][0]: step.outcome for step in forecast.steps if step.live}


def test_final_leaves_an_inconsistent_state_if_one_grant_is_missing(sales):
    forecast = deletion_forecast(sales, "ned", "final")
    assert forecast.verdict == DeletionVerdict.INCONSISTENT and not forecast.namespace_goes
    assert outcomes(forecast) == {
        "application": StepOutcome.DELETED,
        "dataset": StepOutcome.STOPS,
        "artifact": StepOutcome.NOT_REACHED,
    }
    assert forecast.sentence == (
        "An inconsistent state: the deletion stops at the datasets, because 1 of them cannot be deleted. By then 2 of 5 live "
        "entities in namespace:sales are deleted; 3 and the namespace remain."
    )
    assert [str(entity) for entity in undeletable_entities(sales, "ned", "final")] == [
        "dataset:sales.customers"
    ]
    assert {(row.privilege, row.users, row.groups, row.grants) for row in forecast.heirs} == {
        ("ADMIN", 1, 0, 2),
        ("EXECUTE", 0, 1, 1),
    }


def test_core_skips_an_entity_that_cannot_be_deleted(sales):
    forecast = deletion_forecast(sales, "ned", "core")
    assert forecast.verdict == DeletionVerdict.PARTIAL and (forecast.gone, forecast.remains) == (4, 2)
    assert outcomes(forecast) == {
        "application": StepOutcome.DELETED,
        "dataset": StepOutcome.PARTLY_DELETED,
        "artifact": StepOutcome.DELETED,
    }
    assert forecast.sentence == (
        "4 of 5 live entities in namespace:sales are deleted; each of the other 1 is reported as an "
        "error, and the namespace remains."
    )


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("dee", "lacks ADMIN on namespace:sales"),
        ("ina", "is not a known, active principal"),
        ("nobody", "is not a known, active principal"),
    ],
)
def test_nothing_is_deleted_without_admin_on_the_namespace(sales, user, words):
    for generation in GENERATIONS:
        forecast = deletion_forecast(sales, user, generation)
        assert (
            forecast.verdict == DeletionVerdict.REFUSED and forecast.gone == 0 and words in forecast.sentence
        )


@pytest.mark.parametrize("address", ["dataset:sales.orders", "namespace:nowhere"])
def test_forecast_needs_a_live_namespace(sales, address):
    with pytest.raises(LifecycleError):
        deletion_forecast(parse_address(address), "ned")


def test_forecast_takes_a_fixed_number_of_statements(sales):
    with CaptureQueriesContext(connection) as captured:
        deletion_forecast(sales, "ned", "final")
    assert len(captured) <= 13
