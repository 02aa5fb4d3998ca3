"""Runs compute the same effects of changes, namespace by namespace, as pages do at once, on random tenants."""

import pytest

from analytics.models import AnalysisRun
from analytics.plan_effects.compute import MAX_TOP, compute_effect
from analytics.plan_effects.sources import SingleChangesSource
from analytics.plan_effects.stored import StoredEffect
from entities.address import parse_address
from entities.models import State
from grants.change_set import Activate, ActivateGeneration, Delete, Join, Register, RemovePrincipal, as_text
from grants.changes import ChangeSet, preview
from grants.effects import evaluate
from grants.models import JobState
from grants.policies.catalogue import GENERATIONS
from tests.analytics.plan_effects.test_agreement import ALL_ROWS, NoProgress, check_agreement
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)


def computed(changes, generation, active):
    """Return the effect that a run computes, without the worker."""
    texts = tuple(map(as_text, changes))
    folder = f"effect-{AnalysisRun.objects.count()}"
    report = compute_effect(
        SingleChangesSource(texts, generation, active),
        folder=folder,
        max_rows=ALL_ROWS,
        progress=NoProgress(),
    )
    return StoredEffect(
        AnalysisRun.objects.create(
            type="change-effect",
            state=JobState.DONE,
            revision=report.revision,
            summary=report.summary,
            result_path=folder,
        )
    )


def some_changes(tenant, *, has_known_changes):
    """Return the deletion of a container and further changes. has_known_changes: whether users become active
    or inactive.
    """
    live = sorted((address for address, state in tenant.entities.items() if state == State.LIVE), key=str)
    namespace = next(address for address in live if address.kind == "namespace")
    active, groups = (
        sorted(user for user, status in tenant.users.items() if status == (True, True)),
        sorted(tenant.groups),
    )
    if not has_known_changes:
        return [Delete(namespace), RemovePrincipal(f"group:{groups[0]}")]
    application = next(
        address for address in live if address.kind == "application" and address.namespace != namespace
    )
    deleted = next(
        address
        for address, state in sorted(tenant.entities.items(), key=str)
        if address.kind in ("dataset", "stream") and state == State.DELETED and address.namespace != namespace
    )
    others = sorted(tenant.users.keys() - {active[1]})
    return [
        Delete(application),
        Register(deleted, f"user:{active[0]}"),
        Join(active[0], groups[-1]),
        Register(parse_address(f"dataset:{application.namespace.key}.quite-new")),
        RemovePrincipal(f"user:{active[1]}"),
        *(Activate(user) for user in others),
    ]


@pytest.mark.parametrize(
    ("number", "active", "generation"),
    [(17, "existing", "final"), (44, "existing", "final"), (22, "core", "core")],
)
def test_a_run_computes_the_effect_of_changes_that_is_computed_at_once(
    settings, monkeypatch, number, active, generation
):
    settings.DEFAULT_GENERATION = active
    if number == 17:
        # one entity in a batch, as for very many users
        monkeypatch.setattr(evaluate, "MAX_PAIRS_PER_BATCH", 1)
    tenant = random_tenant(number)
    store_tenant(tenant)
    changes = (
        [ActivateGeneration(GENERATIONS["existing"])]
        if active == "core"
        else some_changes(tenant, has_known_changes=number != 17)
    )
    expected = preview(ChangeSet.of(*changes), GENERATIONS[generation])
    effect = computed(changes, generation, active)
    assert expected.effect.has_effect
    check_agreement(effect, expected.effect)
    strandings = expected.strandings
    assert effect.strandings == strandings._replace(entities=list(strandings.entities[:MAX_TOP]))
