"""Make the model of runs a proxy of `grants.Job`. Changes no data."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("analytics", "0005_runs_are_jobs"), ("grants", "0038_jobs")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("AnalysisRun"),
                migrations.CreateModel(
                    name="AnalysisRun",
                    fields=[],
                    options={"default_permissions": (), "proxy": True, "indexes": [], "constraints": []},
                    bases=("grants.job",),
                ),
            ],
        ),
    ]
