"""After applying the plan from a Spark policy-impact report, activating the other generation takes no
permission away.
"""

import pytest
from django.test import Client

from analytics.models import AnalysisRun
from entities.models import Entity, State
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.evaluation.engine import answer_questions
from grants.jobs import run_job
from grants.journal import NEUTRAL_ACTIONS
from grants.models import JobState, JournalLine, Plan, PlanState, Role, User, all_grants
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import question_from_json
from grants.validity import in_force_condition
from tests.support.pages import shown_effect_of_plan
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BEFORE, AFTER = "existing", "final"


@pytest.fixture
def ada(spark, settings, tmp_path):
    """Return an administrator of a console with a small tenant, in which the earlier generation is active."""
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    store_tenant(random_tenant(9))
    client = Client()
    client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR, is_principal=False))
    activate(client, BEFORE)
    return client


def activate(client, name: str) -> None:
    form = {"from": active_generation().name, "reason": "the new rules"}
    assert client.post(f"/policies/{name}/activate", form).status_code == 303
    assert active_generation().name == name


def run_policy_impact(client) -> AnalysisRun:
    """Start a policy-impact run with the form of the Analyses page, and return the finished run."""
    page = client.post(
        "/analyses/start", {"analysis": "policy-impact", "generation": BEFORE, "to_generation": AFTER}
    )
    run_job(int(page["Location"].rstrip("/").rpartition("/")[2]))
    run = AnalysisRun.objects.latest("pk")
    assert run.state == JobState.DONE, run.error
    return run


def permissions() -> set[tuple[str, str, str]]:
    """Return every (user, entity, operation) that the active generation permits, if both generations have a
    policy for it.
    """
    cases = [
        (user, entity.kind, entity.key, operation)
        for user in User.objects.values_list("username", flat=True)
        for entity in Entity.objects.filter(state=State.LIVE)
        for operation in KINDS[entity.kind].operations
        if all(GENERATIONS[name].policy(entity.kind, operation).has_rule for name in (BEFORE, AFTER))
    ]
    questions = [
        question_from_json(
            {
                "subject": {"type": "user", "id": user},
                "action": {"name": operation},
                "resource": {"type": kind, "id": key},
            },
            active_generation=active_generation().name,
        )
        for user, kind, key, operation in cases
    ]
    return {
        (user, f"{kind}:{key}", operation)
        for (user, kind, key, operation), answer in zip(cases, answer_questions(questions), strict=True)
        if answer["decision"]
    }


def create_plan(client, run: AnalysisRun) -> Plan:
    page = client.post(f"/plans/policy-impact/{run.pk}", {"prefer": "fewest"}, follow=True)
    assert (
        "the smallest set of grants" in page.content.decode()
        or "would not be enough" in page.content.decode()
    )
    return page.context["plan"]


def apply_plan(client, plan: Plan) -> None:
    page = client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"reason": "keeps current permissions", "beyond": "yes"},
        follow=True,
    )
    plan.refresh_from_db()
    assert f"Plan {plan.pk} is applied" in page.content.decode() and plan.state == PlanState.APPLIED


def data_revision() -> int:
    """Return the revision of the last line that is not about a run."""
    return JournalLine.objects.exclude(action__in=NEUTRAL_ACTIONS).latest("revision").revision


def total_grants() -> int:
    """Return the number of grants that count now. A plan also renews grants that have ended."""
    return sum(grants.filter(in_force_condition()).count() for grants in all_grants())


def test_the_plan_of_a_spark_report_keeps_all_permissions_that_would_be_lost(ada):
    before, grants_before = permissions(), total_grants()
    run = run_policy_impact(ada)
    plan = create_plan(ada, run)
    assert run.summary["answers_lost"] == plan.recipe["answers"] > 50
    assert total_grants() == grants_before, "a plan changes nothing until it is applied"
    apply_plan(ada, plan)
    assert total_grants() == grants_before + plan.effect["grants"]
    second_run = run_policy_impact(ada)
    assert second_run.summary["answers_lost"] == 0 and second_run.revision == data_revision()
    activate(ada, AFTER)
    assert before <= permissions()
    assert (
        JournalLine.objects.filter(action="grant", reason="keeps current permissions").count()
        == plan.effect["grants"]
    )
