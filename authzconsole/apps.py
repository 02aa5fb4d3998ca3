"""The Django app of the console: its pages, APIs and commands."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "authzconsole"
    verbose_name = "Authorization console"
