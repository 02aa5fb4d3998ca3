"""The labels of the console roles on pages."""

from grants.models import Role

# by the stored role of an account
ROLE_LABELS = dict(Role.choices)
ROLE_CHOICES = Role.choices
