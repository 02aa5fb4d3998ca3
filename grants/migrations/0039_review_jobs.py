"""Give each review that is being prepared or finished a job."""

import django.db.models.deletion
from django.db import migrations, models

TYPES = {"preparing": "review-preparation", "finishing": "review-finishing"}


def create_jobs(apps, schema_editor):
    Job, Campaign = apps.get_model("grants", "Job"), apps.get_model("grants", "Campaign")
    for campaign in Campaign.objects.filter(state__in=TYPES).order_by("pk"):
        # it starts again: its worker was stopped for the upgrade
        job = Job.objects.create(type=TYPES[campaign.state])
        Campaign.objects.filter(pk=campaign.pk).update(job=job)
    if schema_editor.connection.vendor == "postgresql":
        # the next operations change the same table
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):

    dependencies = [("grants", "0038_jobs")]

    operations = [
        migrations.AddField(
            "campaign", "job", models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, to="grants.job")
        ),
        migrations.RunPython(create_jobs, migrations.RunPython.noop),
        migrations.RemoveField("campaign", "sent_at"),
        migrations.RemoveField("campaign", "heartbeat_at"),
        migrations.RemoveField("campaign", "attempt"),
    ]
