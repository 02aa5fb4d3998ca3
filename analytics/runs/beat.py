"""The scheduler's table in the database, kept to what the settings and the schedules say."""

from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from analytics.analyses import ANALYSES
from analytics.models import Schedule
from analytics.runs.schedules import periodic_task_name, run_missed_schedules, write_periodic_task


class Scheduler(DatabaseScheduler):
    """Reads the table every few minutes and whenever it changed; puts it right before it does."""

    def setup_schedule(self):
        # once at the start, because an interval may be another than last time
        self.update_from_dict(self.app.conf.beat_schedule)
        run_missed_schedules()

    def all_as_schedule(self):
        self._put_right()
        return super().all_as_schedule()

    def _put_right(self) -> None:
        """Remove entries that nothing asks for any longer, and write those that are missing."""
        fixed = self.app.conf.beat_schedule
        nightly = {periodic_task_name(schedule.analysis): schedule for schedule in Schedule.objects.filter(analysis__in=ANALYSES)}
        PeriodicTask.objects.exclude(name__in=[*fixed, *nightly]).delete()
        there = set(PeriodicTask.objects.values_list("name", flat=True))
        for name in fixed.keys() - there:
            self.Entry.from_entry(name, app=self.app, **fixed[name])
        for name in nightly.keys() - there:
            write_periodic_task(nightly[name])
