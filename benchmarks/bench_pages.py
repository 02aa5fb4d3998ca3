"""Measure the response time of each page for three readers on PostgreSQL, of the effects that pages load, and of the results
of the search field.

The tenant has 1,000,000 entities, 10,000 users, 500 groups and 2,000,000 grants. The reference is guardian's
first page of the datasets that the last reader can read.
"""

import logging
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.console import bench_console
from benchmarks.size import Size

SIZE = Size(entities=1_000_000, namespaces=200, users=10_000, groups=500, grants=2_000_000)
MAX_MILLISECONDS, MAX_EFFECT_MILLISECONDS = 200, 2_000
# typed into the search field: nothing, beginnings, names, and actions with their target
SEARCHES = (
    "",
    "da",
    "{word}",
    "{namespace}",
    "{user}",
    "grant",
    "ask {dataset}",
    "off-board {user}",
    "journal",
    "plan 1",
)
TIMES, REFERENCE_TIMES = 20, 5
MAX_CHARACTERS = 400
# The result of these analyses grows faster than the tenant.
OPTIONS = {name: {"namespace": "ns150"} for name in ("outliers", "role-mining")}


def main() -> int:
    with bench_console(SPARK_DRIVER_MEMORY="3g"):
        from benchmarks.tenants import write_tenant

        write_tenant(SIZE)
        return 0 if measure() else 1


def measure() -> bool:
    from django.core.management import call_command

    from authzconsole.demo.pages import EFFECT_PARTS, PAGES

    call_command("collectstatic", "--noinput", verbosity=0)
    # each reader requests every page once, also pages that are refused
    logging.getLogger("django.request").setLevel(logging.ERROR)
    readers = create_readers(random.Random(1))
    vacuum()
    reference = reference_milliseconds(readers[-1].user)
    # measure every page, also after one that is too slow
    is_within_limits = [
        measure_page(name, address, reader, reference)
        for name, address in PAGES.items()
        for reader in readers
    ]
    is_within_limits += [
        measure_page(
            f"{name}, effect", PAGES[name], reader, reference, part=part, limit=MAX_EFFECT_MILLISECONDS
        )
        for name, part in EFFECT_PARTS.items()
        for reader in readers
    ]
    is_within_limits += [
        measure_page(
            f"search for `{text}`", f"/search?q={text}", reader, reference, part="search-suggestions"
        )
        for text in SEARCHES
        for reader in readers
    ]
    return all([*is_within_limits, *measure_access(readers[0].user, readers[-1].user, reference)])


def vacuum() -> None:
    """Vacuum and analyze, as autovacuum would do a minute after many writes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


@dataclass(frozen=True)
class PageReader:
    """The account that requests the pages.

    examples: values for the addresses of authzconsole/demo/pages.py, one set per request; objects visible to
    the reader.
    """

    title: str
    user: object
    examples: list[dict[str, str]]


def create_readers(rng: random.Random) -> list[PageReader]:
    from benchmarks.tenants import create_user_who_sees_nearly_everything
    from grants.models import Role, User

    administrator = User.objects.create(username="administrator", role=Role.ADMINISTRATOR, is_principal=False)
    few, watcher = create_user_with_few_grants(rng), create_user_who_sees_nearly_everything("dataset")
    created = create_examples(administrator)
    return [
        PageReader("an administrator", administrator, [any_objects(rng) | created for _ in range(TIMES + 1)]),
        PageReader("a user with three grants", few, [granted_objects(rng, few) for _ in range(TIMES + 1)]),
        PageReader(
            "a user who sees nearly everything",
            watcher,
            [watched_objects(rng, watcher) for _ in range(TIMES + 1)],
        ),
    ]


def create_user_with_few_grants(rng: random.Random):
    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.change_set import ChangeSet, Grant
    from grants.changes import apply
    from grants.journal import Author
    from grants.models import User

    user = User.objects.create(username="few")
    entities = [
        Entity.objects.filter(kind=kind)[rng.randrange(10_000)] for kind in ("dataset", "program", "stream")
    ]
    apply(
        ChangeSet.of(*(Grant("user:few", entity.address, Privilege.READ) for entity in entities)),
        author=Author("benchmark"),
    )
    return user


def create_examples(administrator) -> dict[str, str]:
    """Create a report of each analysis, a proposed and an applied plan, an access request, a token and some
    entities that are not live; return the numbers.
    """
    from analytics.spark.session import stop_spark
    from authzconsole.common.tokens import create_token
    from authzconsole.demo.staging import create_reports
    from authzconsole.findings.refresh import refresh_findings
    from authzconsole.models import Finding, TokenScope
    from entities.models import Entity
    from grants.changes import Shown
    from grants.journal import Author
    from grants.models import User
    from grants.plans.apply import apply_plan
    from grants.plans.sources.copy import copy_plan
    from grants.requests.create import RequestDraft, WantedAccess, create_request

    author = Author("benchmark")
    for state, remainder in (("planned", 0), ("deleted", 1)):
        Entity.objects.extra(where=[f"id %% 1000 = {remainder}"]).filter(kind="dataset").update(state=state)
    reports = create_reports(administrator, finish_run, OPTIONS)
    stop_spark()
    plan = copy_plan.create(author, source="user:user1", target="user:user2")
    applied = copy_plan.create(author, source="user:user3", target="user:user4")
    apply_plan(
        author=replace(author, reason="benchmark"), plan_id=applied.pk, shown=Shown(accepts_beyond=True)
    )
    token = create_token(
        author=author, owner="administrator", name="benchmark", scopes=[TokenScope.READ], days=1
    ).token
    dataset = Entity.objects.filter(kind="dataset", state="live").order_by("pk")[500]
    requester = User.objects.get(username="user5")
    request = create_request(
        author=Author(requester.username, user_id=requester.pk),
        draft=RequestDraft("benchmark", [WantedAccess(dataset.address, "read")]),
    )
    refresh_findings()
    finding = Finding.objects.order_by("severity", "-figure", "pk")[0]
    numbers = {
        "finding": finding.pk,
        "plan": plan.pk,
        "applied": applied.pk,
        "request": request.pk,
        "token": token.pk,
    }
    return reports | {name: str(number) for name, number in numbers.items()}


def finish_run(run) -> None:
    from grants.jobs import run_job

    run_job(run.pk)
    run.refresh_from_db()
    if run.error:
        raise RuntimeError(f"{run} is {run.state}: {run.error}")


def any_objects(rng: random.Random) -> dict[str, str]:
    from entities.models import Entity
    from grants.models import User

    # the namespaces have the lowest numbers, then come the applications
    highest = {"namespace": SIZE.namespaces, "application": SIZE.applications}

    def random_entity(kind: str, state: str = "live") -> Entity:
        after = rng.randrange(highest.get(kind, SIZE.entities // 2))
        return Entity.objects.filter(kind=kind, state=state, pk__gt=after).order_by("pk")[0]

    user, other, leaver = (f"user{rng.randint(1, SIZE.users)}" for _ in range(3))
    group = (
        User.groups.through.objects.filter(user__username=user).values_list("group__name", flat=True).first()
        or "group1"
    )
    namespace = random_entity("namespace")
    entities = {
        "namespace": namespace,
        "application": random_entity("application"),
        "program": random_entity("program"),
        "dataset": random_entity("dataset"),
        "planned": random_entity("dataset", "planned"),
        "deleted": random_entity("dataset", "deleted"),
    }
    names = {
        "word": f"dataset{rng.randrange(10_000)}",
        "instance": "instance:cdap",
        "namespace_name": namespace.key,
        "user": user,
        "other": other,
        "leaver": leaver,
        "group": group,
    }
    return names | {name: str(entity.address) for name, entity in entities.items()}


def granted_objects(rng: random.Random, user) -> dict[str, str]:
    """Return three entities with direct grants of the user, and their containers, which are visible through
    them.
    """
    entities = {
        grant.content_object.kind: grant.content_object
        for grant in user.grants.select_related("content_object")
    }
    entity = rng.choice(list(entities.values()))
    return {
        **_names_of_user(user),
        "word": "ns",
        "namespace": f"namespace:{entity.key.split('.')[0]}",
        "dataset": str(entities["dataset"].address),
        "program": str(entities["program"].address),
        "application": f"application:{entities['program'].key.rsplit('.', 2)[0]}",
    }


def watched_objects(rng: random.Random, user) -> dict[str, str]:
    from grants.models import GroupGrant

    grants = GroupGrant.objects.filter(group__user=user, pk__gt=0).select_related("content_object")
    last = GroupGrant.objects.order_by("-pk").values_list("pk", flat=True)[0]
    dataset = grants.filter(pk__lte=last - rng.randrange(100_000)).order_by("-pk")[0].content_object
    return {
        **_names_of_user(user),
        "word": f"dataset{rng.randrange(10_000)}",
        "dataset": str(dataset.address),
        "namespace": f"namespace:{dataset.key.split('.')[0]}",
    }


def _names_of_user(user) -> dict[str, str]:
    return dict.fromkeys(("user", "other", "leaver"), user.username)


def reference_milliseconds(user) -> float:
    from guardian.shortcuts import get_objects_for_user

    from entities.models import Entity

    def first_page() -> list[str]:
        datasets = get_objects_for_user(
            user, "entities.read", Entity.objects.filter(kind="dataset"), accept_global_perms=False
        )
        return [entity.key for entity in datasets.order_by("key")[:50]]

    first_page()
    milliseconds = statistics.median(_milliseconds(first_page) for _ in range(REFERENCE_TIMES))
    print(f"    guardian's first page: {milliseconds:,.0f} ms", flush=True)
    return milliseconds


def measure_page(
    name: str,
    address: str,
    reader: PageReader,
    reference: float,
    *,
    part: str = "",
    limit: int = MAX_MILLISECONDS,
) -> bool:
    """Measure a page and print the result; return True if it is fast enough or refused to this reader.

    part: the id of the part that is measured, as htmx requests it. Empty for the page. limit: in milliseconds.
    """
    from django.test import Client

    client = Client(
        SERVER_NAME="127.0.0.1", headers={"HX-Request": "true", "HX-Target": part} if part else {}
    )
    client.force_login(reader.user)
    urls = list(example_urls(address, reader))
    if not urls or client.get(urls[0]).status_code != 200:
        return True
    with SlowestStatement() as slowest:
        durations = sorted(_milliseconds(lambda url=url: _get_page(client, url)) for url in urls[1:])
    percentile_95 = statistics.quantiles(durations, n=20, method="inclusive")[-1]
    return _print_page(f"{name}, {reader.title}", percentile_95, limit, reference, slowest)


def measure_access(administrator, watcher, reference: float) -> Iterator[bool]:
    """Measure the first pages of an entity with 10,000 readers, and of what a user can do who sees nearly
    everything.
    """
    address, watched = create_entity_with_readers(10_000), f"user:{watcher.username}"
    names = {
        "entity with 10,000 readers": f"/entities/{address}?tab=access",
        "who-can": f"/api/v1/who-can?entity={address}",
        "who-can with direct paths": f"/api/v1/who-can?entity={address}&path=direct",
        "person who sees nearly everything": f"/people/{watched}",
        "what-can": f"/api/v1/what-can?principal={watched}",
        "what-can, datasets": f"/api/v1/what-can?principal={watched}&kind=dataset",
    }
    reader = PageReader("an administrator", administrator, [{} for _ in range(TIMES + 1)])
    for name, url in names.items():
        yield measure_page(name, url, reader, reference)


def create_entity_with_readers(readers: int) -> str:
    """Give READ on a dataset to half of the users directly, and to the other half through a group.

    Return its address.
    """
    from django.contrib.auth.models import Group
    from django.utils import timezone

    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.models import GroupGrant, User, UserGrant, permission_ids

    entity = Entity.objects.filter(kind="dataset", state="live").order_by("pk")[1_000]
    group = Group.objects.create(name="readers")
    users = list(User.objects.active_principals().order_by("pk").values_list("pk", flat=True)[:readers])
    columns = {
        "content_object": entity,
        "permission_id": permission_ids()[Privilege.READ],
        "granted_at": timezone.now(),
        "namespace_id": entity.namespace_id,
        "application_id": entity.application_id,
        "entity_kind": entity.kind,
    }
    UserGrant.objects.bulk_create(
        (UserGrant(user_id=pk, **columns) for pk in users[: readers // 2]), ignore_conflicts=True
    )
    User.groups.through.objects.bulk_create(
        User.groups.through(user_id=pk, group=group) for pk in users[readers // 2 :]
    )
    GroupGrant.objects.create(group=group, **columns)
    vacuum()
    return str(entity.address)


def example_urls(address: str, reader: PageReader) -> Iterator[str]:
    """Yield the address with each set of examples; nothing if the reader has no such object."""
    for examples in reader.examples:
        try:
            yield address.format_map(examples)
        except KeyError:
            return


def _get_page(client, url: str) -> None:
    status = client.get(url).status_code
    assert status == 200, f"{url} returns {status}"


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - started)


class SlowestStatement:
    """A context manager that records the slowest SQL statement: its duration in milliseconds and its text."""

    def __enter__(self) -> "SlowestStatement":
        from django.db import connection

        self.milliseconds, self.text, self.parameters = 0.0, "", ()
        self._wrapper = connection.execute_wrapper(self._execute)
        self._wrapper.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._wrapper.__exit__(*error)

    def _execute(self, execute, sql, params, many, context):
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            milliseconds = 1_000 * (time.perf_counter() - started)
            if milliseconds > self.milliseconds:
                self.milliseconds, self.text, self.parameters = milliseconds, str(sql), params


def _print_page(
    title: str, milliseconds: float, limit: int, reference: float, slowest: SlowestStatement
) -> bool:
    is_fast = milliseconds <= limit
    print(
        f"{'ok ' if is_fast else 'LOW'} {title}: 95 of 100 within {milliseconds:,.0f} ms (at most {limit:,}), "
        f"{milliseconds / reference:.2f} times guardian's first page",
        flush=True,
    )
    if not is_fast:
        statement = " ".join(slowest.text.split())
        print(
            f"    its slowest statement took {slowest.milliseconds:,.0f} ms: {statement[:MAX_CHARACTERS]}",
            flush=True,
        )
    return is_fast


if __name__ == "__main__":
    sys.exit(main())
