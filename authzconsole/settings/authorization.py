"""Grants, entities and the journal."""

from .environment import env, stored_secret

# Guardian only stores grants. Its backend permits everything to superusers, so decisions do not use it.
SILENCED_SYSTEM_CHECKS = ["guardian.W001"]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_AUTO_PREFETCH = False

# further kinds of entities of this deployment; see entities/kinds_file.py
KINDS_FILE = env.str("KINDS_FILE", default="")
INSTANCE_NAME = env.str("INSTANCE_NAME", default="cdap")
DEFAULT_GENERATION = env.str("DEFAULT_GENERATION", default="final")

# the size up to which the effect of a change is computed exactly; see grants/effects/
EFFECT_MAX_ENTITIES = env.int("EFFECT_MAX_ENTITIES", default=200_000)
EFFECT_MAX_GRANTS = env.int("EFFECT_MAX_GRANTS", default=3_000_000)

# The first key signs new lines of the journal; all keys verify. See grants/journal_keys.py.
JOURNAL_KEYS = env.list("JOURNAL_KEYS", default=[]) or stored_secret(
    "journal_keys", "the console is read-only until the journal is sealed again").split()
# places of the head of the journal outside the database; see grants/verification/anchor_places.py
JOURNAL_ANCHOR = env.list("JOURNAL_ANCHOR", default=[])
