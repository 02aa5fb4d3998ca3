"""Create the tables of alerts about figures."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("analytics", "0008_copy_figures"), ("grants", "0038_jobs")]

    operations = [
        migrations.CreateModel(
            name="FigureAlert",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("analysis", models.CharField(max_length=40)),
                ("figure", models.CharField(max_length=60)),
                ("is_above", models.BooleanField()),
                ("value", models.BigIntegerField()),
                ("recipients", models.JSONField(default=list)),
                ("is_crossed", models.BooleanField(default=False)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="FigureCrossing",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("value", models.BigIntegerField()),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("notified_at", models.DateTimeField(null=True)),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="crossings",
                        to="analytics.figurealert",
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
            options={"default_permissions": ()},
        ),
    ]
