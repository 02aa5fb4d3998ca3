"""The Celery beat scheduler, which announces itself to the check of readiness."""

from celery import beat

from grants.jobs import announce_scheduler


class Scheduler(beat.Scheduler):
    """A scheduler that reads its tasks from the settings and stores nothing.

    Every task is due at the start, because it is not known when it was sent last.
    """

    def setup_schedule(self):
        self.merge_inplace(self.app.conf.beat_schedule)
        for entry in self.schedule.values():
            entry.last_run_at -= entry.schedule.run_every

    def tick(self, *args, **kwargs):
        announce_scheduler()
        return super().tick(*args, **kwargs)
