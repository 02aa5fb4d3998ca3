"""Copy the figures of the runs so far, so that trends begin with them."""

from itertools import islice

from django.db import migrations

RUNS_AT_ONCE = 500
ANALYSES = (
    "delete-readiness",
    "visibility",
    "policy-impact",
    "ghost-grants",
    "stranded",
    "blast-radius",
    "redundant",
    "unused",
    "outliers",
    "role-mining",
)
# a number in the summary that is no figure of the report
NO_FIGURE = "detail_rows"


def copy_figures(apps, schema_editor):
    figure, job = apps.get_model("analytics", "Figure"), apps.get_model("grants", "Job")
    done = job.objects.filter(type__in=ANALYSES, state="done", finished_at__isnull=False).order_by("pk")
    runs = done.iterator(chunk_size=RUNS_AT_ONCE)
    while some := list(islice(runs, RUNS_AT_ONCE)):
        figure.objects.bulk_create(
            figure(
                analysis=run.type,
                options=run.options,
                run_id=run.pk,
                finished_at=run.finished_at,
                name=name,
                value=value,
            )
            for run in some
            for name, value in run.summary.items()
            if type(value) is int and name != NO_FIGURE
        )


class Migration(migrations.Migration):
    dependencies = [("analytics", "0007_figures")]

    operations = [migrations.RunPython(copy_figures, migrations.RunPython.noop)]
