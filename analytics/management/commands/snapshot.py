"""Write a snapshot for standalone jobs."""

from analytics.snapshots.snapshot import export_snapshot, lease_snapshot
from analytics.tables import EXTRA_TABLES
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = (
        "Write a snapshot of the tenant as Parquet, for python -m analytics.job, and print its URI. Without URI, use the "
        "newest snapshot of the console, which it deletes when there are newer ones (SNAPSHOTS_KEPT)."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "uri",
            metavar="URI",
            nargs="?",
            default="",
            help="a new folder: a path, or a URI that Spark and pyarrow both read",
        )

    def handle(self, *, uri, **options):
        if uri:
            export_snapshot(uri)
            self.stdout.write(uri)
            return
        with lease_snapshot(extra_tables=EXTRA_TABLES) as snapshot:
            self.stdout.write(snapshot.uri.removeprefix("file://"))
