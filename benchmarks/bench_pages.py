"""How long the server takes for each page, for three callers, on PostgreSQL: 1,000,000 entities, 10,000 users, 500 groups and
2,000,000 grants. The reference is guardian's first page of the datasets that the last of the callers may read."""

import logging
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from authzconsole.ops.postgres import postgresql
from benchmarks.size import Size

SIZE = Size(entities=1_000_000, namespaces=200, users=10_000, groups=500, grants=2_000_000)
MOST_MILLISECONDS = 200
TIMES, REFERENCE_TIMES = 20, 5
MOST_CHARACTERS = 400


def main() -> int:
    with postgresql() as url, tempfile.TemporaryDirectory(prefix="console-bench-") as state:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "authzconsole.settings", "STATE_DIR": state,
                       "SPARK_DRIVER_MEMORY": "3g"}
        os.environ.pop("SNAPSHOT_URI", None)
        import django

        django.setup()
        from django.core.management import call_command

        from benchmarks.tenants import tenant_write

        call_command("migrate", verbosity=0)
        tenant_write(SIZE)
        return 0 if measure() else 1


def measure() -> bool:
    from django.core.management import call_command

    from authzconsole.demo.pages import PAGES

    call_command("collectstatic", "--noinput", verbosity=0)
    # a page that is not a caller's to see is asked for once, and refused
    logging.getLogger("django.request").setLevel(logging.ERROR)
    callers = made_callers(random.Random(1))
    settle()
    reference = reference_milliseconds(callers[-1].user)
    # every page is measured, also after one that was too slow
    kept = [page_measured(name, address, caller, reference) for name, address in PAGES.items() for caller in callers]
    return all(kept)


def settle() -> None:
    """As PostgreSQL itself does a minute after much was written."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


@dataclass(frozen=True)
class Caller:
    """examples: as authzconsole/demo/pages.py fills its addresses with, another tenant's part each; objects that they see."""

    title: str
    user: object
    examples: list[dict[str, str]]


def made_callers(dice: random.Random) -> list[Caller]:
    from benchmarks.tenants import sees_nearly_everything_write
    from grants.models import Role, User

    administrator = User.objects.create(username="administrator", role=Role.ADMINISTRATOR, is_principal=False)
    few, watcher = few_grants_write(dice), sees_nearly_everything_write("dataset")
    staged = staged_numbers(administrator)
    return [Caller("an administrator", administrator, [any_objects(dice) | staged for _ in range(TIMES + 1)]),
            Caller("a user with three grants", few, [held_objects(dice, few) for _ in range(TIMES + 1)]),
            Caller("a user who sees nearly everything", watcher, [watched_objects(dice, watcher) for _ in range(TIMES + 1)])]


def few_grants_write(dice: random.Random):
    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.changes.services import change_grants
    from grants.journal import Author
    from grants.models import User

    user = User.objects.create(username="few")
    places = [Entity.objects.filter(kind=kind)[dice.randrange(10_000)] for kind in ("dataset", "program", "stream")]
    change_grants(author=Author("benchmark"), grant=[("user:few", place.address, Privilege.READ) for place in places])
    return user


def staged_numbers(administrator) -> dict[str, str]:
    """A report of each analysis, a plan and a token; and some addresses that are not live."""
    from analytics.spark.session import stop_spark
    from authzconsole.common.tokens import create_token
    from authzconsole.demo.staging import reports_staged
    from authzconsole.models import TokenScope
    from entities.models import Entity
    from grants.journal import Author
    from grants.plans.sources.copy import create_plan_from_copy

    author = Author("benchmark")
    for state, rest in (("planned", 0), ("deleted", 1)):
        Entity.objects.extra(where=[f"id %% 1000 = {rest}"]).filter(kind="dataset").update(state=state)
    reports = reports_staged(administrator, report_made)
    stop_spark()
    plan = create_plan_from_copy(author=author, source="user:user1", target="user:user2")
    token = create_token(author=author, owner="administrator", name="benchmark", scopes=[TokenScope.READ], days=1).token
    return reports | {"plan": str(plan.pk), "token": str(token.pk)}


def report_made(run) -> None:
    from analytics.runs.execution import execute_run

    execute_run(run_id=run.pk)
    run.refresh_from_db()
    if run.error:
        raise RuntimeError(f"{run} is {run.state}: {run.error}")


def any_objects(dice: random.Random) -> dict[str, str]:
    from entities.models import Entity
    from grants.models import User

    # the namespaces have the lowest numbers, then come the applications
    highest = {"namespace": SIZE.namespaces, "application": SIZE.applications}

    def one(kind: str, state: str = "live") -> Entity:
        after = dice.randrange(highest.get(kind, SIZE.entities // 2))
        return Entity.objects.filter(kind=kind, state=state, pk__gt=after).order_by("pk")[0]

    user, other, leaver = (f"user{dice.randint(1, SIZE.users)}" for _ in range(3))
    group = User.groups.through.objects.filter(user__username=user).values_list("group__name", flat=True).first() or "group1"
    namespace = one("namespace")
    places = {"namespace": namespace, "application": one("application"), "program": one("program"), "dataset": one("dataset"),
              "planned": one("dataset", "planned"), "deleted": one("dataset", "deleted")}
    names = {"word": f"dataset{dice.randrange(10_000)}", "instance": "instance:cdap", "namespace_name": namespace.key,
             "user": user, "other": other, "leaver": leaver, "group": group}
    return names | {name: str(place.address) for name, place in places.items()}


def held_objects(dice: random.Random, user) -> dict[str, str]:
    """Of what the user holds directly: three entities, and the containers that these show."""
    held = {grant.content_object.kind: grant.content_object for grant in user.grants.select_related("content_object")}
    place = dice.choice(list(held.values()))
    return {**_of_oneself(user), "word": "ns", "namespace": f"namespace:{place.key.split('.')[0]}",
            "dataset": str(held["dataset"].address), "program": str(held["program"].address),
            "application": f"application:{held['program'].key.rsplit('.', 2)[0]}"}


def watched_objects(dice: random.Random, user) -> dict[str, str]:
    from grants.models import GroupGrant

    grants = GroupGrant.objects.filter(group__user=user, pk__gt=0).select_related("content_object")
    last = GroupGrant.objects.order_by("-pk").values_list("pk", flat=True)[0]
    dataset = grants.filter(pk__lte=last - dice.randrange(100_000)).order_by("-pk")[0].content_object
    return {**_of_oneself(user), "word": f"dataset{dice.randrange(10_000)}", "dataset": str(dataset.address),
            "namespace": f"namespace:{dataset.key.split('.')[0]}"}


def _of_oneself(user) -> dict[str, str]:
    return dict.fromkeys(("user", "other", "leaver"), user.username)


def reference_milliseconds(user) -> float:
    from guardian.shortcuts import get_objects_for_user

    from entities.models import Entity

    def first_page() -> list[str]:
        found = get_objects_for_user(user, "entities.read", Entity.objects.filter(kind="dataset"), accept_global_perms=False)
        return [entity.key for entity in found.order_by("key")[:50]]

    first_page()
    took = statistics.median(_milliseconds(first_page) for _ in range(REFERENCE_TIMES))
    print(f"    guardian's first page: {took:,.0f} ms", flush=True)
    return took


def page_measured(name: str, address: str, caller: Caller, reference: float) -> bool:
    """True also where it is not this caller's to see."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(caller.user)
    asked = list(addresses_of(address, caller))
    if not asked or client.get(asked[0]).status_code != 200:
        return True
    with slowest_statement() as slowest:
        took = sorted(_milliseconds(lambda url=url: _answered(client, url)) for url in asked[1:])
    return _said(f"{name}, {caller.title}", statistics.quantiles(took, n=20, method="inclusive")[-1], reference, slowest)


def addresses_of(address: str, caller: Caller) -> Iterator[str]:
    """Nothing where the caller has no such object."""
    for examples in caller.examples:
        try:
            yield address.format_map(examples)
        except KeyError:
            return


def _answered(client, url: str) -> None:
    status = client.get(url).status_code
    assert status == 200, f"{url} answers {status}"


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - started)


class slowest_statement:
    """Of all that run meanwhile: its milliseconds and its text."""

    def __enter__(self) -> "slowest_statement":
        from django.db import connection

        self.milliseconds, self.text, self.parameters = 0.0, "", ()
        self._wrapping = connection.execute_wrapper(self._execute)
        self._wrapping.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._wrapping.__exit__(*error)

    def _execute(self, execute, sql, params, many, context):
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took = 1_000 * (time.perf_counter() - started)
            if took > self.milliseconds:
                self.milliseconds, self.text, self.parameters = took, str(sql), params


def _said(title: str, took: float, reference: float, slowest: slowest_statement) -> bool:
    kept = took <= MOST_MILLISECONDS
    print(f"{'ok ' if kept else 'LOW'} {title}: 95 of 100 within {took:,.0f} ms (at most {MOST_MILLISECONDS}), "
          f"{took / reference:.2f} times guardian's first page", flush=True)
    if not kept:
        statement = " ".join(slowest.text.split())
        print(f"    its slowest statement took {slowest.milliseconds:,.0f} ms: {statement[:MOST_CHARACTERS]}", flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
