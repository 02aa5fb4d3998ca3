"""Take over the table of jobs, which analytics.0005 made from the table of runs. Changes no data."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("analytics", "0005_runs_are_jobs"), ("grants", "0037_removed_review_items")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Job",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("type", models.CharField(max_length=40)),
                        ("options", models.JSONField(default=dict)),
                        ("state", models.CharField(choices=[("waiting", "Waiting"), ("running", "Running"), ("done", "Done"), ("failed", "Failed"), ("cancelled", "Cancelled")], default="waiting", max_length=9)),
                        ("is_scheduled", models.BooleanField(default=False)),
                        ("requested_at", models.DateTimeField(auto_now_add=True)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("heartbeat_at", models.DateTimeField(null=True)),
                        ("cancel_requested_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("claim", models.CharField(blank=True, default="", max_length=32)),
                        ("process", models.CharField(blank=True, default="", max_length=120)),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("stage", models.CharField(blank=True, default="", max_length=20)),
                        ("steps_done", models.PositiveIntegerField(default=0)),
                        ("steps_total", models.PositiveIntegerField(default=0)),
                        ("error", models.TextField(blank=True, default="")),
                        ("summary", models.JSONField(default=dict)),
                        ("revision", models.BigIntegerField(null=True)),
                        ("result_path", models.CharField(blank=True, default="", max_length=200)),
                        ("result_hash", models.CharField(blank=True, default="", max_length=64)),
                        ("result_removed_at", models.DateTimeField(null=True)),
                        ("requested_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        "default_permissions": (),
                        "indexes": [
                            models.Index(fields=["state", "requested_at"], name="job_waiting"),
                            models.Index(fields=["type", "-requested_at"], name="job_latest"),
                        ],
                    },
                ),
            ],
        ),
    ]
