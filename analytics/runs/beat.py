"""The Celery beat scheduler, which keeps its database table in line with the settings."""

from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from analytics.runs.schedules import request_first_runs
from grants.jobs import announce_scheduler


class Scheduler(DatabaseScheduler):
    """A database scheduler that repairs its table each time before it reads it."""

    def setup_schedule(self):
        # once at the start, because an interval in the settings may have changed
        self.update_from_dict(self.app.conf.beat_schedule)
        request_first_runs()

    def tick(self, *args, **kwargs):
        announce_scheduler()
        return super().tick(*args, **kwargs)

    def all_as_schedule(self):
        """Delete entries that are not in the settings, write the missing ones, and read the table."""
        entries = self.app.conf.beat_schedule
        PeriodicTask.objects.exclude(name__in=entries).delete()
        for name in entries.keys() - set(PeriodicTask.objects.values_list("name", flat=True)):
            self.Entry.from_entry(name, app=self.app, **entries[name])
        return super().all_as_schedule()
