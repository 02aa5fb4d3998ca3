"""Create the table of figures."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("analytics", "0006_analysis_run_proxy"), ("grants", "0038_jobs")]

    operations = [
        migrations.CreateModel(
            name="Figure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("analysis", models.CharField(max_length=40)),
                ("options", models.JSONField(default=dict)),
                ("finished_at", models.DateTimeField()),
                ("name", models.CharField(max_length=60)),
                ("subject", models.CharField(blank=True, default="", max_length=512)),
                ("value", models.BigIntegerField()),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="grants.job",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["analysis", "name", "-finished_at"], name="figure_series"),
                    models.Index(fields=["finished_at"], name="figure_age"),
                ],
            },
        ),
    ]
