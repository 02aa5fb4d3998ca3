"""Test that runs and other background work of version 1.1.0 become jobs in `migrate`.

The database has the schema of 1.1.0, which the migrations up to that version create, and rows that are
written with SQL.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Runs in a separate process because the database of a running test process cannot be replaced.
SCRIPT = """
import json
import django
django.setup()
from django.core.management import call_command
from datetime import timedelta
from django.db import connection
from django.utils import timezone

for app, migration in (("authzconsole", "0012"), ("analytics", "0004"), ("grants", "0037")):
    call_command("migrate", app, migration, verbosity=0)

def insert(table, **values):
    values = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}
    with connection.cursor() as cursor:
        names, marks = ", ".join(values), ", ".join(["%s"] * len(values))
        cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))

AT = str(timezone.now() - timedelta(minutes=10))[:26]
RUN = dict(requested_at=AT, is_scheduled=False, claim="", process="", tasks_done=0, tasks_total=0, stage="",
           error="", summary={}, result_folder="", manifest_hash="", attempt=1)
insert("analytics_analysisrun", id=7, **RUN | dict(
    analysis="delete-readiness", options={"generation": "final", "namespace": ""}, state="done", revision=3,
    summary={"pairs": 4}, result_folder="results/x/run-7-1", manifest_hash="ab", tasks_done=5, tasks_total=5,
    finished_at=AT, started_at=AT))
insert("analytics_analysisrun", id=9, **RUN | dict(
    analysis="visibility", options={"generation": "core", "namespace": ""}, state="waiting", attempt=0))
insert("analytics_analysisrun", id=12, **RUN | dict(
    analysis="plan-effect", options={"plan": "1", "generation": "final"}, state="running", claim="c",
    heartbeat_at=AT, started_at=AT))
EVIDENCE = dict(entity="dataset:sales.orders", contents=False, kind="", from_revision=1, to_revision=3, requested_at=AT,
                users_done=2, users_total=2, figures={}, error="", path="", sha256="", attempt=1)
insert("authzconsole_evidence", id=7, **EVIDENCE | dict(
    state="done", figures={"rows": 5}, path="evidence/x/evidence-7-1.zip", sha256="cd", finished_at=AT))
insert("authzconsole_evidence", id=8, **EVIDENCE | dict(state="running", heartbeat_at=AT))
insert("authzconsole_webhook", id=1, url="https://example.com/", actions="", nonce="n", is_enabled=True,
       created_by="ada", created_at=AT, position=2, attempts=1, delivered=2, error="status 500", claimed_until=AT)
for number, state in ((3, "preparing"), (4, "finishing"), (5, "finished")):
    insert("grants_campaign", id=number, title="Quarterly", description="", scope={}, reviewer_rule="administrators",
           reviewer_group="", escalation_group="", deadline=AT, unanswered="list", recurrence="", reminder_days=7,
           escalation_days=0, state=state, created_by="ada", created_at=AT, finished_by="", base_revision=0,
           item_count=0, figures={}, next_created=False, attempt=1, heartbeat_at=AT, error="", path="reviews/x.zip",
           sha256="ef")
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE django_celery_beat_intervalschedule (id integer PRIMARY KEY)")
    cursor.execute("CREATE TABLE django_celery_beat_periodictask (interval_id integer NOT NULL "
                   "REFERENCES django_celery_beat_intervalschedule)")
insert("django_celery_beat_intervalschedule", id=1)
insert("django_celery_beat_periodictask", interval_id=1)

call_command("migrate", verbosity=0)

from analytics.models import AnalysisRun
from analytics.runs.services import request_run
from authzconsole.celery import app
from grants.jobs import sweep_jobs
from grants.jobs import queue
from grants.models import Job, Role, User

sent = []
queue.redis_problem = lambda: ""
type(app).send_task = lambda self, name, args, **options: sent.append([name, *args, options["queue"]])
report = {"runs": [[run.pk, run.type, run.options, str(run.state), run.revision, run.summary, run.result_path,
                    run.result_hash, run.steps_done, run.attempt] for run in AnalysisRun.objects.order_by("pk")]}
sweep_jobs()
report["sent"] = sent[:]
report["states"] = [str(job.state) for job in Job.objects.order_by("pk")]
report["next"] = request_run(analysis="stranded", options={}, requested_by=None).pk
report["former tables"] = [
    name for name in connection.introspection.table_names() if name.startswith("django_celery_beat")
]

from django.test import Client
client = Client()
client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR, is_principal=False))
report["rest"] = client.get("/api/v1/runs/7").json()
report["figures"] = client.get("/api/v1/figures").json()["items"]
from grants.models.reviews import Campaign
report["reviews"] = [[review.pk, str(review.state), review.path, review.job and review.job.type]
                     for review in Campaign.objects.order_by("pk")]
report["evidence"] = client.get("/api/v1/evidence").json()["items"]
from authzconsole.common.webhooks.delivery import dispatch_webhooks
from authzconsole.models import Webhook
from grants.principals.services import add_group
from grants.journal import Author
for number in range(4):
    add_group(author=Author("root", user_id=User.objects.get(username="ada").pk), name=f"group-{number}")
dispatch_webhooks()
webhook = Webhook.objects.get()
report["webhook"] = [webhook.pk, webhook.position, webhook.attempts, webhook.job.type, str(webhook.job.state)]
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the data that the console reads from the old database after `migrate`."""
    folder = tmp_path_factory.mktemp("jobs")
    environment = os.environ | {
        "DATABASE_URL": f"sqlite:///{folder / 'console.sqlite3'}",
        "STATE_DIR": str(folder),
        "ALLOWED_HOSTS": "testserver",
        "FIRST_ANALYSES": "off",
        "SPARK_STARTS_EARLY": "off",
        "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_the_figures_of_runs_become_trends(report):
    (row,) = report["figures"]
    assert (row["analysis"], row["figure"], row["value"], row["run"]) == ("delete-readiness", "pairs", 4, 7)
    assert row["options"] == {"generation": "final", "namespace": ""}


def test_runs_keep_their_numbers_options_and_reports(report):
    readiness, visibility, effect = report["runs"]
    assert readiness == [
        7,
        "delete-readiness",
        {"generation": "final", "namespace": ""},
        "done",
        3,
        {"pairs": 4},
        "results/x/run-7-1",
        "ab",
        5,
        1,
    ]
    assert visibility[:4] == [9, "visibility", {"generation": "core", "namespace": ""}, "waiting"]
    assert effect[:4] == [12, "plan-effect", {"plan": "1", "generation": "final"}, "running"]
    assert report["next"] > 12


def test_evidence_keeps_its_numbers_and_files(report):
    newest, oldest = report["evidence"]
    assert oldest | {"requested_at": "", "finished_at": ""} == {
        "number": 7,
        "entity": "dataset:sales.orders",
        "contents": False,
        "kind": "",
        "from_revision": 1,
        "to_revision": 3,
        "state": "done",
        "users_done": 2,
        "users_total": 2,
        "requested_by": None,
        "requested_at": "",
        "finished_at": "",
        "error": "",
        "figures": {"rows": 5},
        "has_file": True,
        "sha256": "cd",
    }
    assert oldest["requested_at"] == oldest["finished_at"] is not None
    assert (newest["number"], newest["state"]) == (8, "waiting")


def test_unfinished_reviews_have_a_job(report):
    assert report["reviews"] == [
        [3, "preparing", "reviews/x.zip", "review-preparation"],
        [4, "finishing", "reviews/x.zip", "review-finishing"],
        [5, "finished", "reviews/x.zip", None],
    ]


def test_a_webhook_continues_at_its_position(report):
    assert report["webhook"] == [1, 2, 1, "webhook-delivery", "waiting"]


def test_waiting_runs_are_sent_and_those_of_a_stopped_worker_start_again(report):
    # the other numbers are those of the jobs of the reviews and of the evidence
    assert [task for task in report["sent"] if task[1] < 13] == [
        ["grants.run_job", number, "runs"] for number in (9, 12)
    ]
    assert len(report["sent"]) == 5
    assert report["states"][:3] == ["done", "waiting", "waiting"]


def test_the_tables_of_the_former_scheduler_are_dropped(report):
    assert report["former tables"] == []


def test_rest_has_the_members_of_before(report):
    run = report["rest"]
    assert (run["number"], run["analysis"], run["state"], run["tasks_done"]) == (
        7,
        "delete-readiness",
        "done",
        5,
    )
    assert run["results_removed_at"] is None and run["signed"] is True
