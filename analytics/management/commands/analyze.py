"""Run one analysis on Spark in the foreground."""

import time
from pathlib import Path

from django.core.management.base import CommandError

from analytics.analyses import OPTIONS, Analysis, AnalysisError, analysis_by_name
from analytics.options import add_analysis_arguments, add_force_argument
from analytics.results.export import check_export_path, export_table
from analytics.results.read import result_batches
from analytics.runs.services import validated_options
from analytics.storage import StorageError
from grants.management.console_command import ConsoleCommand

MAX_LINES = 100


class Command(ConsoleCommand):
    help = "Run one analysis on Spark in the foreground."

    def add_arguments(self, parser):
        add_analysis_arguments(parser)
        parser.add_argument(
            "--output",
            metavar="FILE",
            type=Path,
            help="write the result table to this .csv, .parquet or .jsonl file",
        )
        parser.add_argument(
            "--detail",
            metavar="FILE",
            type=Path,
            help="write the detail table to this .csv, .parquet or .jsonl file",
        )
        add_force_argument(parser)

    def handle(self, *, name, output, detail, force, **options):
        try:
            analysis = analysis_by_name(name)
            if detail is not None and analysis.detail is None:
                raise AnalysisError(
                    f"{analysis.name} has no detail table: use --output, which writes the same rows"
                )
            analysis_options = validated_options(analysis, {name: options[name] or "" for name in OPTIONS})
            for path in filter(None, (output, detail)):
                check_export_path(path)
            if output is not None and detail is not None and _is_same_file(output, detail):
                raise AnalysisError(
                    f"--output and --detail are the same file, {output}: use two different files"
                )
            self._run(analysis, analysis_options, output, detail, force)
        except (AnalysisError, StorageError) as error:
            raise CommandError(str(error)) from error

    def _run(
        self,
        analysis: Analysis,
        options: dict[str, str],
        output: Path | None,
        detail: Path | None,
        is_forced: bool,
    ) -> None:
        # imported here because PySpark loads slowly, and wrong options are reported before
        from analytics.runs.execution import analysis_in_foreground

        with analysis_in_foreground(
            analysis,
            options,
            with_detail=detail is not None,
            is_forced=is_forced,
            on_stage=self._stage_printer(),
        ) as folder:
            if output is None:
                self._print_overview(analysis, folder)
            for path, result in ((output, analysis.output("rows")), (detail, analysis.detail)):
                if path is not None:
                    row_count = export_table(result.table, folder, path)
                    self.stderr.write(f"{path}: {row_count} rows")

    def _stage_printer(self):
        """Return a function that prints a stage and the seconds since the start to standard error."""
        start = time.monotonic()
        return lambda stage: self.stderr.write(f"{time.monotonic() - start:6.1f} s  {stage.label}")

    def _print_overview(self, analysis: Analysis, folder: str) -> None:
        """Print the overview table with aligned columns: at most MAX_LINES rows, and a note if there are
        more.
        """
        table = analysis.overview
        lines, is_cut = [list(table.column_names)], False
        for batch in result_batches(table, folder):
            for row in batch.to_pylist():
                if len(lines) > MAX_LINES:
                    is_cut = True
                    break
                lines.append([_cell_text(value) for value in row.values()])
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        for line in lines:
            self.stdout.write(
                "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            )
        if is_cut:
            self.stdout.write(f"… only the first {MAX_LINES} rows are shown; --output FILE writes all rows.")


def _is_same_file(first: Path, second: Path) -> bool:
    """Return whether both paths lead to the same file.

    Symbolic links are followed, and the file need not exist.
    """
    return (
        first.resolve() == second.resolve() or first.exists() and second.exists() and first.samefile(second)
    )


def _cell_text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
    return str(value)
