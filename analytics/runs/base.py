"""Find an older report that a run can advance, so that only the rows of some users and namespaces are computed."""

from collections.abc import Mapping

from analytics.analyses import Analysis, AnalysisError
from analytics.computation import BaseResult
from analytics.models import AnalysisRun
from analytics.results.changed_areas import changed_areas
from analytics.results.files import table_file_paths
from analytics.results.read import report_manifest
from analytics.snapshots.stored import SCHEMA_VERSION, Snapshot
from analytics.storage import StorageError, storage
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import rules_digest
from grants.policies.times import parse_time


def result_basis(options: Mapping[str, str]) -> str:
    """Return what the rows of a result depend on besides the tenant: the schema of snapshots and the rules."""
    generation = GENERATIONS.get(options.get("generation", ""))
    return f"{SCHEMA_VERSION} {rules_digest(generation) if generation else ''}".strip()


def base_result(analysis: Analysis, run: AnalysisRun, snapshot: Snapshot) -> BaseResult | None:
    """Return the report of an older run with the areas that changed since then; None if everything must be computed.

    Its files are verified; a report that is not signed is not advanced. Runs the queries of `changed_areas`.
    """
    outputs = [output for output in analysis.outputs if output.has_areas]
    basis = run.summary.get("basis")
    if not outputs or run.revision is None or not basis or basis != result_basis(run.options):
        return None
    areas = changed_areas(run.revision, parse_time(run.summary["at"]), snapshot.revision, snapshot.at)
    if areas is None:
        return None
    folder = storage().child(run.result_path)
    try:
        manifest = report_manifest(run)
        if manifest is None:
            return None
        for output in outputs:
            manifest.check_files(folder.filesystem, table_file_paths(output.table, run.result_path, manifest))
    except (AnalysisError, StorageError, OSError):
        # the comparison with this report says what is wrong
        return None
    return BaseResult({output.table.name: folder.child(output.table.name) for output in outputs}, areas)
