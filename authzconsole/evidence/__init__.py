"""Request evidence about the access to an entity, and write its bundle in a Celery task.

This package contains requests, their execution and the files of a bundle. `grants.evidence` computes who had
access.
"""
