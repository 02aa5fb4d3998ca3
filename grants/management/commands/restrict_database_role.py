"""Give a PostgreSQL role the rights of the console, without the right to change or delete journal lines."""

from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction

from grants.management.console_command import ConsoleCommand
from grants.models import JournalHead, JournalLine

CREATE = "CREATE ROLE {role} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
RIGHTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
    f"REVOKE UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON {JournalLine._meta.db_table} FROM {{role}}",
    # the head is updated with each line
    f"REVOKE DELETE, TRUNCATE, REFERENCES, TRIGGER ON {JournalHead._meta.db_table} FROM {{role}}",
    "REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}",
    # questions about the past use temporary views and tables
    "GRANT TEMPORARY ON DATABASE {database} TO {role}",
)


class Command(ConsoleCommand):
    help = (
        "Give a PostgreSQL role the rights that the console needs while it runs. The role can add journal lines, but not "
        "change or delete them. Run this as the owner of the tables, again after each migration."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "role",
            metavar="ROLE",
            help="the role; it is created without the right to sign in if it is missing",
        )

    def handle(self, *, role, **options):
        if connection.vendor != "postgresql":
            raise CommandError("only PostgreSQL has roles: set DATABASE_URL to a PostgreSQL database")
        name, database = map(connection.ops.quote_name, (role, connection.settings_dict["NAME"]))
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "SELECT rolsuper, rolname = current_user FROM pg_roles WHERE rolname = %s", [role]
                )
                row = cursor.fetchone()
                if row and any(row):
                    raise CommandError(
                        f"{role} is a superuser or owns the tables: choose a role with fewer rights"
                    )
                for statement in (*(() if row else (CREATE,)), *RIGHTS):
                    cursor.execute(statement.format(role=name, database=database))
                # without the right to grant it, the statement above only causes a warning
                cursor.execute("SELECT has_database_privilege(%s, current_database(), 'TEMPORARY')", [role])
                has_temporary = cursor.fetchone()[0]
        except DatabaseError as error:
            raise CommandError(f"the rights of {role} could not be set: {error}") from None
        self.stdout.write(f"{role} can add journal lines, but not change or delete them.")
        if not has_temporary:
            self.stderr.write(
                f"{role} cannot create temporary views, which questions about the past need. As the owner of the "
                f"database, execute: GRANT TEMPORARY ON DATABASE {database} TO {name}"
            )
        if not row:
            self.stdout.write(f"Allow it to sign in with: ALTER ROLE {name} LOGIN PASSWORD '...'")
