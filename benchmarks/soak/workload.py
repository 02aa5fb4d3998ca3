"""Clients of the console: each sends change sets or runs over REST, and records what the console answered."""

import http.client
import json
import random
import threading
from dataclasses import dataclass, field

PRINCIPALS = ("user:amara.okafor", "user:amelie.laurent", "user:ana.pereira")
PRIVILEGES = ("READ", "WRITE")
ANALYSES = ("delete-readiness", "visibility", "stranded", "ghost-grants")
REQUEST_SECONDS = 15
MAX_UNFINISHED_RUNS = 2

# principal, entity, privilege
Item = tuple[str, str, str]


@dataclass
class SentChange:
    """A change set that a client sent. status: the status of the answer, 0 if there was none.

    lines: the action, principal, entity and privilege of each journal line that it must have if it was
    applied.
    """

    request_id: str
    lines: frozenset[tuple[str, str, str, str]]
    status: int = 0
    body: str = ""

    @property
    def is_acknowledged(self) -> bool:
        return self.status == 200

    @property
    def is_refused(self) -> bool:
        """Return whether the console answered that it changed nothing.

        After a server error or no answer, both are possible.
        """
        return 400 <= self.status < 500


@dataclass
class Workload:
    """All clients, and what they sent."""

    port: int
    token: str
    writers: int = 4
    pause_seconds: float = 0.2
    changes: list[SentChange] = field(default_factory=list)
    started_runs: list[int] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        targets = [lambda number=number: self._write(number) for number in range(self.writers)] + [
            self._start_runs,
            self._read,
        ]
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def request(self, method: str, path: str, body: object = None, request_id: str = "") -> tuple[int, str]:
        """Return the status and the body of an answer; 0 if the connection ended before a complete answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if request_id:
            headers["X-Request-ID"] = request_id
        try:
            connection.request(
                method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, headers
            )
            response = connection.getresponse()
            status, text = response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            status, text = 0, ""
        finally:
            connection.close()
        with self._lock:
            key = f"{method} {path.split('/')[0].split('?')[0]} {status or 'no answer'}"
            self.statuses[key] = self.statuses.get(key, 0) + 1
        return status, text

    def _write(self, writer: int) -> None:
        """Grant privileges on new addresses, and revoke some of the grants that were acknowledged.

        So each change set changes something, and none depends on a change with an unknown outcome.
        """
        choose, number = random.Random(writer), 0
        revocable: list[Item] = []
        while not self._stop.is_set():
            number += 1
            grant = [
                (
                    choose.choice(PRINCIPALS),
                    f"dataset:finance.soak_{writer}_{number}_{part}",
                    choose.choice(PRIVILEGES),
                )
                for part in range(choose.randint(1, 4))
            ]
            change = self.send_change(f"soak-{writer}-{number}", grant, revocable)
            revocable = grant[:2] if change.is_acknowledged and choose.random() < 0.3 else []
            self._stop.wait(self.pause_seconds)

    def send_change(self, request_id: str, grant: list[Item], revoke: list[Item]) -> SentChange:
        lines = frozenset(
            (action, *item) for action, items in (("grant", grant), ("revoke", revoke)) for item in items
        )
        change = SentChange(request_id, lines)
        body: dict[str, object] = {"reason": "soak"}
        for name, items in (("grant", grant), ("revoke", revoke)):
            if items:
                body[name] = [
                    {"principal": principal, "entity": entity, "privileges": [privilege]}
                    for principal, entity, privilege in items
                ]
        change.status, change.body = self.request("POST", "grants", body, request_id)
        with self._lock:
            self.changes.append(change)
        return change

    def _start_runs(self) -> None:
        choose = random.Random("runs")
        while not self._stop.wait(1.0):
            if self.unfinished_runs() >= MAX_UNFINISHED_RUNS:
                continue
            status, text = self.request("POST", "runs", {"analysis": choose.choice(ANALYSES)})
            if status == 202:
                number = json.loads(text)["number"]
                self.started_runs.append(number)
                if choose.random() < 0.1:
                    self._stop.wait(choose.uniform(0, 4))
                    self.request("POST", f"runs/{number}/cancel")

    def unfinished_runs(self) -> int:
        """Return the number of waiting and running runs; a large number if the console does not answer."""
        total = 0
        for state in ("waiting", "running"):
            status, text = self.request("GET", f"runs?state={state}&limit=10")
            if status != 200:
                return 1_000
            total += len(json.loads(text)["items"])
        return total

    def _read(self) -> None:
        """Read the journal and the reports, like the pages do."""
        while not self._stop.wait(0.5):
            for path in (
                "journal?limit=20",
                "grants?limit=20",
                *(f"runs/{number}" for number in self.started_runs[-1:]),
            ):
                self.reads += 1
                self.request("GET", path)
