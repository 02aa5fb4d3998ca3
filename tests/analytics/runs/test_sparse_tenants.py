"""Every analysis of a tenant in which a part is missing has a report, and its pages and the lists of findings open."""

import pytest
from django.test import Client
from django.urls import reverse

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from analytics.runs.schedules import default_options
from analytics.runs.services import request_run
from grants.jobs import run_job
from grants.models import JobState, Role, User
from tests.support.analyses import sparse_tenant
from tests.support.random_tenants import store_tenant

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("tenant", ["one user", "no grants"])
def test_every_analysis_of_a_sparse_tenant_has_a_report_whose_pages_open(
    tenant, spark, settings, tmp_path, sent_tasks
):
    settings.SNAPSHOT_URI = str(tmp_path)
    store_tenant(sparse_tenant(tenant))
    client = Client()
    client.force_login(User.objects.create(username="ada", role=Role.ADMINISTRATOR))
    for name, analysis in ANALYSES.items():
        run = request_run(analysis=name, options=default_options(analysis), requested_by=None)
        run_job(run.pk)
        run.refresh_from_db()
        assert (run.state, run.error) == (JobState.DONE, ""), name
        pages = [reverse("analysis", args=[run.pk])]
        pages += [reverse("analysis-table", args=[run.pk, table.name]) for table in analysis.tables]
        for page in pages:
            assert client.get(page, follow=True).status_code == 200, page
    assert AnalysisRun.objects.filter(state=JobState.DONE).count() == len(ANALYSES)
    for page in ("/", "/findings/", "/trends"):
        assert client.get(page).status_code == 200, page
