"""Requests for evidence."""

from django.db import models

from grants.models import Job


class Evidence(models.Model):
    """A request for evidence: who had access to an entity in a period. `authzconsole.evidence` writes its
    bundle.

    entity: an address, registered or not. contents: whether the evidence is also about everything inside it.
    kind: limits it to one kind; empty for all.
    from_revision, to_revision: the states at both, and all between them, are part of it.
    since, until: the requested times; null if revisions were requested.
    job: writes the bundle. Its steps are users; with contents, entities. Its summary has the counts of the
    manifest, and its result is the file of the bundle.
    """

    entity = models.CharField(max_length=600)
    contents = models.BooleanField(default=False, db_default=False)
    kind = models.CharField(max_length=63, blank=True, default="", db_default="")
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    from_revision = models.BigIntegerField()
    to_revision = models.BigIntegerField()
    job = models.OneToOneField(Job, models.PROTECT)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"evidence {self.pk}"
