"""A second backend that checks passwords, such as that of a directory."""

from django.contrib.auth.backends import ModelBackend


class SecondBackend(ModelBackend):
    pass
