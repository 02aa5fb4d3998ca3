"""The Django app of the console: its pages, APIs and commands."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "authzconsole"
    verbose_name = "Authorization console"

    def ready(self):
        from django.contrib.auth.signals import user_logged_in

        from authzconsole.common.recent_authentication import record_sign_in

        user_logged_in.connect(record_sign_in)
