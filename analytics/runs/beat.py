"""The Celery beat scheduler, which keeps its database table in line with the settings and the schedules."""

from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from analytics.analyses import ANALYSES
from analytics.models import Schedule
from analytics.runs.schedules import (
    periodic_task_name,
    request_first_runs,
    run_missed_schedules,
    write_periodic_task,
)
from grants.jobs.queue import announce_scheduler


class Scheduler(DatabaseScheduler):
    """A database scheduler that repairs its table each time before it reads it."""

    def setup_schedule(self):
        # once at the start, because an interval in the settings may have changed
        self.update_from_dict(self.app.conf.beat_schedule)
        run_missed_schedules()
        request_first_runs()

    def tick(self, *args, **kwargs):
        announce_scheduler()
        return super().tick(*args, **kwargs)

    def all_as_schedule(self):
        self._repair_table()
        return super().all_as_schedule()

    def _repair_table(self) -> None:
        """Delete entries that neither the settings nor a schedule need, and write the missing ones."""
        fixed = self.app.conf.beat_schedule
        nightly = {
            periodic_task_name(schedule.analysis): schedule
            for schedule in Schedule.objects.filter(analysis__in=ANALYSES)
        }
        PeriodicTask.objects.exclude(name__in=[*fixed, *nightly]).delete()
        existing = set(PeriodicTask.objects.values_list("name", flat=True))
        for name in fixed.keys() - existing:
            self.Entry.from_entry(name, app=self.app, **fixed[name])
        for name in nightly.keys() - existing:
            write_periodic_task(nightly[name])
