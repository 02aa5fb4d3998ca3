"""Measure the response times of the console under load on PostgreSQL, while other work runs at the same time.

For LOAD_SECONDS (default 60), LOAD_READERS (default 200) clients download the journal at a few KB/s, 10,000
decision requests per minute arrive at fixed times, pages are requested, a tenant document is imported, and an
analysis runs. The load generator shares the machine with the server. Prints percentiles, and the memory of
the web server in both halves.
"""

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from authzconsole.ops import ROOT
from benchmarks.console import bench_console
from benchmarks.http_server.server import SECRET_KEY, request_bytes, running_server
from benchmarks.memory import proportional_bytes
from benchmarks.size import Size

SIZE = Size(entities=100_000, namespaces=200, users=5_000, groups=150, grants=200_000)
READERS, READER_BYTES_PER_SECOND = int(os.environ.get("LOAD_READERS", "200")), 4_096
# downloads that start at the same time, before the measurement; later ones start as earlier ones end
STARTING_READERS, SETTLE_SECONDS, MAX_RAMP_SECONDS = 4, 5, 300
DECISIONS_PER_MINUTE, DECISION_CONNECTIONS = 10_000, 32
PAGES_PER_SECOND, PAGES = (
    2,
    ("/", "/explorer", "/people/", "/journal/", "/plans/", "/entities/namespace:{namespace}"),
)
# about 2 MB as CSV; longer than what a worker keeps in memory
JOURNAL_LINES = 12_000
IMPORT_LINES = 20_000
MAX_DECISION_SECONDS, MAX_PAGE_SECONDS, MAX_MEMORY_RATIO = 0.2, 1.0, 1.1
LOAD_SECONDS = int(os.environ.get("LOAD_SECONDS", "60"))


def main() -> int:
    # the key of the session that the benchmark creates
    with bench_console(SECRET_KEY=SECRET_KEY) as state:
        from django.core.management import call_command

        from benchmarks.tenants import write_tenant

        call_command("collectstatic", "--noinput", verbosity=0)
        write_tenant(SIZE)
        requests = create_requests()
        with running_server() as port:
            return asyncio.run(measure(port, requests, state))


@dataclass(frozen=True)
class Requests:
    """The requests as bytes, ready to send: decisions, pages and one download."""

    decisions: list[bytes]
    pages: list[bytes]
    download: bytes


def create_requests() -> Requests:
    from django.test import Client

    from authzconsole.common.tokens import create_token
    from entities.models import Entity
    from grants.authority.transactions import administrator_transaction
    from grants.journal import Author, JournalEntry, append_to_journal
    from grants.models import Role, User

    author, rng = Author("benchmark"), random.Random(1)
    administrator = User.objects.create(username="administrator", role=Role.ADMINISTRATOR, is_principal=False)
    with administrator_transaction(author) as head:
        lines = (
            JournalEntry("describe", entity=f"namespace:ns{n % 100}", detail="x" * 100)
            for n in range(JOURNAL_LINES)
        )
        append_to_journal(head, lines, author=author)
    secret = create_token(
        author=author, owner="administrator", name="benchmark", scopes=["decide"], days=1
    ).secret
    datasets = list(Entity.objects.filter(kind="dataset")[:5_000])
    decisions = [
        request_bytes(
            "/access/v1/evaluation",
            {
                "subject": {"type": "user", "id": f"user{rng.randint(1, SIZE.users)}"},
                "action": {"name": "read"},
                "resource": {"type": "dataset", "id": rng.choice(datasets).key},
            },
            {"Authorization": f"Bearer {secret}"},
        )
        for _ in range(1_000)
    ]
    client = Client()
    client.force_login(administrator)
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    namespace = Entity.objects.filter(kind="namespace")[7].key

    def page(path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookies}\r\n\r\n".encode()

    return Requests(
        decisions, [page(path.format(namespace=namespace)) for path in PAGES], page("/journal.csv")
    )


@dataclass
class Measured:
    """Seconds from the planned time of a request to the end of its response, and the statuses."""

    name: str
    max_seconds: float
    seconds: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)

    def report(self) -> bool:
        if len(self.seconds) < 2:
            print(f"LOW {self.name}: no responses ({dict(self.statuses)})", flush=True)
            return False
        cuts = statistics.quantiles(self.seconds, n=100)
        is_good = cuts[98] <= self.max_seconds and set(self.statuses) == {200}
        print(
            f"{'ok ' if is_good else 'LOW'} {self.name}: 50 % {1_000 * cuts[49]:.0f} ms, 95 % {1_000 * cuts[94]:.0f} ms, "
            f"99 % {1_000 * cuts[98]:.0f} ms (allowed {1_000 * self.max_seconds:.0f} ms), maximum "
            f"{1_000 * max(self.seconds):.0f} ms; {len(self.seconds):,} responses, by status {dict(self.statuses)}",
            flush=True,
        )
        return is_good


async def measure(port: int, requests: Requests, state: Path) -> int:
    reading, background, starting = Counter[str](), Background(state), asyncio.Semaphore(STARTING_READERS)
    readers = [
        asyncio.create_task(read_slowly(port, requests.download, reading, starting)) for _ in range(READERS)
    ]
    deadline = time.monotonic() + MAX_RAMP_SECONDS
    while reading["responses"] < READERS and time.monotonic() < deadline:
        await asyncio.sleep(1)
    await asyncio.sleep(SETTLE_SECONDS)
    decisions, pages = Measured("decisions", MAX_DECISION_SECONDS), Measured("pages", MAX_PAGE_SECONDS)
    memory: list[int] = []
    work = asyncio.create_task(background.run())
    sampling = asyncio.create_task(sample_memory(port, memory))
    await asyncio.gather(
        send_at_rate(port, requests.decisions, DECISIONS_PER_MINUTE / 60, DECISION_CONNECTIONS, decisions),
        send_at_rate(port, requests.pages, PAGES_PER_SECOND, 4, pages),
    )
    open_readers = READERS - sum(reader.done() for reader in readers)
    for task in (*readers, work, sampling):
        task.cancel()
    await asyncio.gather(*readers, work, sampling, return_exceptions=True)
    results = [decisions.report(), pages.report(), report_memory(memory)]
    print(
        f"    slow readers: {open_readers} open at the end, {reading['responses']} responses, {reading['bytes'] / 1e6:.0f} MB, "
        f"{reading['refused']} refused; in parallel: {background.summary()}",
        flush=True,
    )
    return 0 if all(results) and open_readers >= READERS * 0.9 else 1


async def read_slowly(port: int, request: bytes, reading: Counter, starting: asyncio.Semaphore) -> None:
    """Download repeatedly with a small buffer, at a few KB/s."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=READER_BYTES_PER_SECOND)
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, READER_BYTES_PER_SECOND
        )
        try:
            async with starting:
                writer.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                start = await reader.readline()
            if b" 200 " not in start:
                reading["refused"] += 1
                await asyncio.sleep(2)
                continue
            reading["responses"] += 1
            while chunk := await reader.read(READER_BYTES_PER_SECOND):
                reading["bytes"] += len(chunk)
                await asyncio.sleep(len(chunk) / READER_BYTES_PER_SECOND)
        finally:
            writer.close()


async def send_at_rate(
    port: int, requests: list[bytes], per_second: float, connections: int, measured: Measured
) -> None:
    """Send requests at planned times for LOAD_SECONDS, whether or not earlier ones have been answered."""
    start, queue = time.monotonic() + 0.5, asyncio.Queue[int | None]()
    senders = [
        asyncio.create_task(send_queued(port, requests, queue, start, per_second, measured))
        for _ in range(connections)
    ]
    for number in range(int(LOAD_SECONDS * per_second)):
        if (wait := start + number / per_second - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        queue.put_nowait(number)
    for _ in senders:
        queue.put_nowait(None)
    await asyncio.gather(*senders)


async def send_queued(
    port: int,
    requests: list[bytes],
    queue: asyncio.Queue,
    start: float,
    per_second: float,
    measured: Measured,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (number := await queue.get()) is not None:
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        measured.statuses[int(head[9:12])] += 1
        measured.seconds.append(time.monotonic() - start - number / per_second)
    writer.close()


async def sample_memory(port: int, memory: list[int]) -> None:
    processes = server_processes(port)
    while True:
        memory.append(sum(map(proportional_bytes, processes)))
        await asyncio.sleep(1)


def server_processes(port: int) -> list[int]:
    rows = [
        row.split(None, 2)
        for row in subprocess.run(
            ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]
    servers = {int(pid) for pid, _, command in rows if f"--port {port}" in command and "granian" in command}
    return sorted(servers | {int(pid) for pid, parent, _ in rows if int(parent) in servers})


def report_memory(memory: list[int]) -> bool:
    half = len(memory) // 2
    first, second = statistics.median(memory[:half]), statistics.median(memory[half:])
    is_good = second <= first * MAX_MEMORY_RATIO
    print(
        f"{'ok ' if is_good else 'LOW'} memory of the web server: {first / 1e6:.0f} MB in the first half, "
        f"{second / 1e6:.0f} MB in the second (allowed: {MAX_MEMORY_RATIO} times as much), maximum {max(memory) / 1e6:.0f} MB",
        flush=True,
    )
    return is_good


class Background:
    """Repeated imports and reports, one of each at a time."""

    def __init__(self, state: Path):
        self._state, self._finished = state, Counter[str]()

    async def run(self) -> None:
        await asyncio.gather(
            self._repeat("imports", self._import_command), self._repeat("reports", self._report_command)
        )

    async def _repeat(self, name: str, command) -> None:
        number = 0
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "manage.py",
                *command(number),
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                self._finished[name if await process.wait() == 0 else f"failed {name}"] += 1
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
            number += 1

    def _import_command(self, number: int) -> list[str]:
        file = self._state / "import.jsonl"
        with file.open("w") as output:
            for line in range(IMPORT_LINES):
                entity = {"type": "entity", "id": f"dataset:imported{number}.d{line}", "state": "live"}
                output.write(json.dumps(entity) + "\n")
        return ["import_tenant", str(file)]

    def _report_command(self, number: int) -> list[str]:
        return ["analyze", "delete-readiness", "--output", str(self._state / f"report{number}.csv")]

    def summary(self) -> str:
        return (
            ", ".join(f"{count} {name}" for name, count in sorted(self._finished.items()))
            or "nothing finished"
        )


if __name__ == "__main__":
    sys.exit(main())
