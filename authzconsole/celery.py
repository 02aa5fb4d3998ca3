"""The Celery application; tasks live in each package's `tasks.py` and only call a service."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")

app = Celery("authzconsole")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
