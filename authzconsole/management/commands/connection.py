"""Connect platforms: add one, and compare its grants with those of the console in either direction."""

import sys
from getpass import getpass

from authzconsole.connections import services
from authzconsole.connections.platform import ConnectionFault
from entities.vocabulary import quantity
from grants.changes import added_violations
from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.management.second_person import add_second_person_argument, reason_with_second_person
from grants.plans.application import large_change_count


class Command(ConsoleCommand):
    help = "Connect a platform, such as a Hive metastore, and compare its entities and grants with those of the console."

    def add_arguments(self, parser):
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="add a connection")
        add.add_argument(
            "type", metavar="TYPE", help=f"the type of the platform: {', '.join(services.TYPES)}"
        )
        add.add_argument("name", metavar="NAME", help="letters, digits and underscores")
        add.add_argument(
            "--url", required=True, metavar="URL", help="such as thrift://metastore.example:9083"
        )
        add.add_argument(
            "--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the type"
        )
        token = verbs.add_parser(
            "token", help="store the token or password of a connection, which standard input has"
        )
        token.add_argument("--remove", action="store_true", help="remove what is stored instead")
        sync = verbs.add_parser("sync", help="bring the console in line with the platform")
        sync.add_argument("--dry-run", action="store_true", help="only print what would change")
        sync.add_argument(
            "--accept-shrunken",
            action="store_true",
            help="accept a platform that has less than half of what it had",
        )
        drift = verbs.add_parser("drift", help="list the privileges that only one side grants")
        push = verbs.add_parser("push", help="bring the platform in line with the console")
        push.add_argument("--apply", action="store_true", help="make the changes")
        push.add_argument("--reason", default="", metavar="TEXT", help="the reason, for the journal")
        for parser_of_verb in (sync, push):
            add_second_person_argument(parser_of_verb)
        for parser_of_verb in (token, sync, drift, push):
            parser_of_verb.add_argument("name", metavar="NAME", help="the name of the connection")

    def handle(self, *, verb, **options):
        getattr(self, f"_{verb}")(**options)

    def _add(self, *, type, name, url, option, **_):
        pairs = [text.partition("=") for text in option]
        if wrong := [key for key, equals, _ in pairs if not (key and equals)]:
            raise ConnectionFault(f"`{wrong[0]}` is not an option: write KEY=VALUE")
        services.add_connection(
            author=Author("connection"),
            type_name=type,
            name=name,
            url=url,
            options={key: value for key, _, value in pairs},
        )
        self.stdout.write(
            f"the connection {name} was added; `connection sync {name} --dry-run` reads the platform"
        )

    def _token(self, *, name, remove, **_):
        connection = services.connection_by_name(name)
        token = ""
        if not remove:
            token = getpass("Token or password: ") if sys.stdin.isatty() else sys.stdin.read().strip()
            if not token:
                raise ConnectionFault("standard input is empty: write the token into it, or pass --remove")
        word = services.store_token(connection, token, author=Author("connection"))
        self.stdout.write(f"the {word} of {name} is {'removed' if remove else 'stored, encrypted'}")

    def _sync(self, *, name, dry_run, accept_shrunken, second_person, **_):
        connection, reason = services.connection_by_name(name), f"sync of {name}"
        if not dry_run:
            reason = reason_with_second_person(reason, second_person)
        result = services.computed_sync(connection, accepts_shrunken=accept_shrunken)
        if dry_run:
            self._write_violations(result.change_set)
        else:
            services.sync(connection, result, author=Author("connection", reason))
        self.write_json(**result.counts, unsupported=[row._asdict() for row in result.unsupported])

    def _write_violations(self, change_set):
        if count := large_change_count(change_set):
            # the check makes all changes and rolls them back, while nothing else can be changed
            self.stderr.write(
                f"Guardrails were not checked, because a sync makes {count:,} changes; it checks them."
            )
            return
        for sentence in added_violations(change_set).sentences:
            self.stderr.write(f"{sentence}.")

    def _drift(self, *, name, **_):
        comparison = services.compare_connection(services.connection_by_name(name))
        drift = list(comparison.drift)
        for grant, console, platform in drift:
            self.write_json(
                principal=grant.principal,
                entity=str(grant.address),
                privilege=str(grant.privilege),
                console=console,
                platform=platform,
            )
        self._write_unsupported(comparison)
        self.stderr.write(
            f"{quantity(len(drift), 'privilege differs', 'privileges differ')} between {name} and the console"
        )

    def _write_unsupported(self, comparison):
        for row in comparison.unsupported:
            self.write_json(self.stderr, **row._asdict())

    def _push(self, *, name, apply, reason, second_person, **_):
        connection = services.connection_by_name(name)
        if apply:
            if not reason.strip():
                raise ConnectionFault("the reason is missing: pass --reason TEXT, which the journal stores")
            reason = reason_with_second_person(reason, second_person)
            comparison = services.push(connection, author=Author("connection", reason))
        else:
            comparison = services.show_push(connection)
        for change in comparison.changes:
            policy = {"policy": change.policy} if change.policy else {}
            self.write_json(
                verb=change.verb,
                principal=change.principal,
                entity=str(change.entity or ""),
                privileges=change.privileges,
                **policy,
            )
        self._write_unsupported(comparison)
        changes = quantity(len(comparison.changes), "change", "changes")
        self.stderr.write(f"{changes} {'made' if apply else 'would be made'} on {name}")
