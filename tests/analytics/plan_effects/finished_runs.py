"""Create finished runs with the effect of a plan or of single changes, as a worker would, but without Spark."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
from django.test import override_settings

from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun
from analytics.plan_effects.stored import StoredEffect
from analytics.results.files import table_path, write_index
from analytics.storage import storage_root
from analytics.tables import PLAN_EFFECT_TABLES, Table
from grants.change_set import Change
from grants.changes import ChangeSet, preview
from grants.effects.effect import Effect, EffectRow
from grants.journal import current_revision
from grants.models import JobState, Plan
from grants.plans.permission_effect import plan_effect
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import format_time


def finish_effect_run(run: AnalysisRun, plan: Plan, *, valid_until: str = "") -> StoredEffect:
    """Finish the run with the effect of the plan, which the evaluator of small plans computes."""
    with override_settings(EFFECT_MAX_ENTITIES=10_000, EFFECT_MAX_GRANTS=10_000):
        effect = plan_effect(plan, run.options["generation"])
    return _finish_run(run, effect, valid_until)


def finish_change_run(run: AnalysisRun, changes: Iterable[Change]) -> StoredEffect:
    """Finish the run with the effect of the changes."""
    with override_settings(EFFECT_MAX_ENTITIES=10_000, EFFECT_MAX_GRANTS=10_000):
        effect = preview(ChangeSet.of(*changes), GENERATIONS[run.options["generation"]]).effect
    stored = _finish_run(run, effect, "")
    strandings = effect.strandings
    run.summary["strandings"] = {
        "without_admin": strandings.without_admin_count,
        "one_admin": strandings.one_admin_count,
        "entities": [[str(row.address), row.admin_count] for row in strandings.entities],
    }
    run.save()
    return stored


def _finish_run(run: AnalysisRun, effect: Effect, valid_until: str) -> StoredEffect:
    folder = f"effect-{run.pk}"
    times = [
        _figures(one, table, folder)
        for one, table in zip(effect.times or [effect], PLAN_EFFECT_TABLES, strict=False)
    ]
    main = next((figures for figures in times if any(figures["tally"])), times[0])
    run.state, run.revision, run.result_path = JobState.DONE, current_revision(), folder
    run.summary = main | {
        "generation": effect.generation,
        "digest": effect.digest,
        "times": times if effect.times else [],
        "other_beginnings": effect.other_beginnings,
        "last_beginning": format_time(effect.last_beginning),
        "detail_rows": effect.tally.total,
        "tables_left_out": {},
        "valid_until": valid_until,
    }
    run.save()
    return StoredEffect(run)


def _figures(effect: Effect, table: Table, folder: str) -> dict:
    """Write the rows at one time, and return the figures."""
    _write_rows(sorted(effect.rows()), table, folder)
    return {
        "table": table.name,
        "at": format_time(effect.at),
        "tally": list(effect.tally),
        "people": [[name, list(tally)] for name, tally in effect.people],
        "people_count": effect.people_count,
        "entities": [[str(address), list(tally)] for address, tally in effect.entities],
        "entity_count": effect.entity_count,
        "operations": [[*key, list(tally)] for *key, tally in effect.operations],
    }


def _write_rows(rows: list[EffectRow], table: Table, folder: str) -> None:
    filesystem, _ = storage_root()
    path = table_path(table, folder)
    filesystem.create_dir(path, recursive=True)
    content = pa.Table.from_pylist([row._asdict() for row in rows], arrow_schema(table))
    pq.write_table(content, f"{path}/part-00000.parquet", filesystem=filesystem)
    write_index(table, folder)
