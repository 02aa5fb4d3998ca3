from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "authzconsole"
    verbose_name = "Authorization console"
