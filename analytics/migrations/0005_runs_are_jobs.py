"""Turn the table of runs into the table of all jobs. `grants.Job` takes it over in grants.0038."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("analytics", "0004_storage_identity")]

    operations = [
        migrations.AlterModelTable("analysisrun", "grants_job"),
        migrations.RemoveIndex("analysisrun", "run_waiting"),
        migrations.RemoveIndex("analysisrun", "run_latest"),
        migrations.RenameField("analysisrun", "analysis", "type"),
        migrations.RenameField("analysisrun", "tasks_done", "steps_done"),
        migrations.RenameField("analysisrun", "tasks_total", "steps_total"),
        migrations.RenameField("analysisrun", "result_folder", "result_path"),
        migrations.RenameField("analysisrun", "manifest_hash", "result_hash"),
        migrations.RenameField("analysisrun", "results_removed_at", "result_removed_at"),
        migrations.AddField("analysisrun", "due_at", models.DateTimeField(null=True)),
        migrations.AlterField("analysisrun", "stage", models.CharField(max_length=20, blank=True, default="")),
        migrations.AddIndex(
            "analysisrun", models.Index(fields=["state", "requested_at"], name="job_waiting")
        ),
        migrations.AddIndex("analysisrun", models.Index(fields=["type", "-requested_at"], name="job_latest")),
    ]
