"""Request evidence about the access to an entity, and write its bundle in a Celery task.

Belongs here: requests, their execution and the files of a bundle. Does not belong here: who had access (`grants.evidence`).
"""
