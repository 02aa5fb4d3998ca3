"""The Spark code in a process that has no Django: what import-linter reads from the text holds when it runs."""

import os
import subprocess
import sys

from authzconsole.ops import ROOT

ALONE = """
import sys
from importlib import import_module
from pkgutil import iter_modules

# whoever imports it, now or when a function is called, gets an ImportError
sys.modules["django"] = None
import analytics.spark

names = [module.name for module in iter_modules(analytics.spark.__path__)]
for name in names:
    import_module(f"analytics.spark.{name}")

from analytics.spark.law import admin_needed_to_delete_namespace, impact_plan, verdict_plan, visibility_plan
from grants.policies.catalogue import GENERATIONS

for generation in GENERATIONS:
    assert visibility_plan(generation).rules and verdict_plan(generation).rules
    assert impact_plan("existing", generation) and admin_needed_to_delete_namespace(generation)
print("without Django:", *names)
"""


def test_every_module_is_imported_and_every_plan_made_where_there_is_no_django():
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}
    alone = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)
    assert alone.returncode == 0, alone.stderr[-3_000:]
    assert {"law", "readiness", "session", "verdicts", "visibility"} <= set(alone.stdout.split())
