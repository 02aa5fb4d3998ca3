"""Give evidence, webhooks and targets of security events a job each. Evidence keeps its numbers."""

import django.db.models.deletion
from django.db import migrations, models

DONE, RUNNING, WAITING = "done", "running", "waiting"


def create_jobs(apps, schema_editor):
    Job, Evidence = apps.get_model("grants", "Job"), apps.get_model("authzconsole", "Evidence")
    for evidence in Evidence.objects.order_by("pk").iterator():
        job = Job.objects.create(
            type="evidence",
            # a running request starts again: its worker was stopped for the upgrade
            state=WAITING if evidence.state == RUNNING else evidence.state,
            requested_by_id=evidence.requested_by_id,
            finished_at=evidence.finished_at,
            attempt=0 if evidence.state == RUNNING else evidence.attempt,
            steps_done=evidence.users_done,
            steps_total=evidence.users_total,
            error=evidence.error,
            summary=evidence.figures,
            result_path=evidence.path,
            result_hash=evidence.sha256,
            result_removed_at=evidence.finished_at if evidence.state == DONE and not evidence.path else None,
        )
        Job.objects.filter(pk=job.pk).update(requested_at=evidence.requested_at)
        Evidence.objects.filter(pk=evidence.pk).update(job=job)
    if schema_editor.connection.vendor == "postgresql":
        # the next operations change the same tables
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def job_field(null):
    return models.OneToOneField(null=null, on_delete=django.db.models.deletion.PROTECT, to="grants.job")


class Migration(migrations.Migration):

    dependencies = [
        ("authzconsole", "0012_expiry_mail"),
        ("grants", "0038_jobs"),
    ]

    operations = [
        migrations.AddField("evidence", "job", job_field(null=True)),
        migrations.AddField("webhook", "job", job_field(null=True)),
        migrations.AddField("securityeventtarget", "job", job_field(null=True)),
        migrations.RunPython(create_jobs, migrations.RunPython.noop),
        migrations.AlterField("evidence", "job", job_field(null=False)),
        migrations.RemoveIndex("evidence", "evidence_state"),
        *(
            migrations.RemoveField("evidence", name)
            for name in (
                "state", "requested_by", "requested_at", "sent_at", "heartbeat_at", "finished_at", "attempt",
                "users_done", "users_total", "figures", "error", "path", "sha256",
            )
        ),
        migrations.RemoveField("webhook", "claimed_until"),
        migrations.RemoveField("securityeventtarget", "claimed_until"),
    ]
