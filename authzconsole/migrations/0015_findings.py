import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("authzconsole", "0014_drop_schedule_tables"),
        ("grants", "0043_guardrails"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AcceptanceRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("pattern", models.CharField(max_length=300)),
                ("until", models.DateTimeField()),
                ("reason", models.TextField()),
                ("made_by", models.CharField(max_length=150)),
                ("made_at", models.DateTimeField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "pattern"), name="one_rule_per_pattern")
                ],
            },
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("subject", models.CharField(blank=True, max_length=300)),
                (
                    "severity",
                    models.PositiveSmallIntegerField(choices=[(0, "Error"), (1, "Warning"), (2, "Notice")]),
                ),
                ("figure", models.BigIntegerField(default=1)),
                ("note", models.CharField(blank=True, max_length=500)),
                ("since", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(null=True)),
                ("accepted_until", models.DateTimeField(null=True)),
                ("accepted_reason", models.TextField(blank=True)),
                ("accepted_by", models.CharField(blank=True, max_length=150)),
                ("accepted_figure", models.BigIntegerField(default=0)),
                ("is_announced", models.BooleanField(default=False)),
                ("history", models.JSONField(default=list)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="findings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="findings",
                        to="authzconsole.acceptancerule",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="grants.job",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["severity", "-figure", "id"], name="finding_order")],
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "subject"), name="one_finding_per_subject")
                ],
            },
        ),
    ]
