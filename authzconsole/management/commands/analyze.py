"""Runs one analysis on Spark, in the foreground."""

import time
from pathlib import Path

from django.core.management.base import CommandError

from analytics.analyses import ANALYSES, Analysis, AnalysisError, analysis_named
from analytics.models import RunStage
from analytics.results.export import check_export_path, export_table
from analytics.results.read import result_batches
from analytics.runs.foreground import analysis_in_foreground
from analytics.runs.options import validated_options
from analytics.storage import StorageError
from authzconsole.management.console_command import ConsoleCommand

OPTIONS = ("generation", "to_generation", "namespace")
MOST_LINES = 100


class Command(ConsoleCommand):
    help = "Runs one analysis on Spark, in the foreground: " + ", ".join(ANALYSES)

    def add_arguments(self, parser):
        parser.add_argument("name", metavar="NAME", help=", ".join(ANALYSES))
        parser.add_argument("--generation", metavar="G", help="default: the active one")
        parser.add_argument("--to-generation", metavar="G")
        parser.add_argument("--namespace", metavar="N", help="only this one")
        parser.add_argument("--output", metavar="FILE", type=Path, help="the rows, as .csv, .parquet or .jsonl")
        parser.add_argument("--detail", metavar="FILE", type=Path, help="the pairs behind the rows, as .csv, .parquet or .jsonl")

    def handle(self, *, name, output, detail, **options):
        try:
            analysis = analysis_named(name)
            if detail is not None and analysis.detail is None:
                raise AnalysisError(f"{analysis.name} has no detail: its rows are the pairs already; --output writes them")
            chosen = validated_options(analysis, {option: options[option] or "" for option in OPTIONS})
            for path in filter(None, (output, detail)):
                check_export_path(path)
            if output is not None and detail is not None and _is_one_file(output, detail):
                raise AnalysisError(f"--output and --detail are the same file, {output}: the second would replace the first; "
                                    f"name two")
            self._run(analysis, chosen, output, detail)
        except (AnalysisError, StorageError) as error:
            raise CommandError(str(error)) from error

    def _run(self, analysis: Analysis, chosen: dict[str, str], output: Path | None, detail: Path | None) -> None:
        with analysis_in_foreground(analysis, chosen, with_detail=detail is not None, on_stage=self._told()) as folder:
            if output is None:
                self._show(analysis, folder)
            for path, asked in ((output, analysis.outputs[0]), (detail, analysis.detail)):
                if path is not None:
                    rows = export_table(asked.table, folder, path)
                    self.stderr.write(f"{path}: {rows} rows")

    def _told(self):
        start = time.monotonic()
        return lambda stage: self.stderr.write(f"{time.monotonic() - start:6.1f} s  {RunStage(stage).label}")

    def _show(self, analysis: Analysis, folder: str) -> None:
        """The overview, one line each, columns aligned; a long one is cut, with the way to all of it."""
        table = analysis.overview
        lines, is_cut = [list(table.column_names)], False
        for batch in result_batches(table, folder):
            for row in batch.to_pylist():
                if len(lines) > MOST_LINES:
                    is_cut = True
                    break
                lines.append([_shown(value) for value in row.values()])
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        for line in lines:
            self.stdout.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
        if is_cut:
            self.stdout.write(f"… only the first {MOST_LINES} are shown; --output FILE writes all rows.")


def _is_one_file(one: Path, other: Path) -> bool:
    """By whatever names: of a file that there is not yet, its folder may be reached in several ways."""
    return one.resolve() == other.resolve() or one.exists() and other.exists() and one.samefile(other)


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
    return str(value)
