"""Reconnect a Celery worker that stopped fetching messages because an acknowledgement failed.

If Redis ends while a worker acknowledges a message, Celery logs the error and continues. The message counts
as unfinished, so a worker that fetches one message at a time fetches no further one. It also does not notice
that its connection is closed, because it does not read from it. The message itself is lost with Redis or is
delivered again; both do no harm.
"""

from typing import Any

from celery import bootsteps
from celery.worker import state

CHECK_SECONDS = 2.0


class ConsumerCheck(bootsteps.StartStopStep):
    """A step of the consumer.

    It reconnects the consumer if the consumer waits for tasks that have already ended.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any):
        super().__init__(consumer, **options)
        self._entry: Any = None
        self._blocking: frozenset[str] = frozenset()

    def start(self, consumer: Any) -> None:
        self._blocking = frozenset()
        self._entry = consumer.timer.call_repeatedly(CHECK_SECONDS, self._check, (consumer,))

    def stop(self, consumer: Any) -> None:
        if self._entry is not None:
            consumer.timer.cancel(self._entry)
            self._entry = None

    shutdown = stop

    def _check(self, consumer: Any) -> None:
        """Raise ConnectionResetError if two checks find the same blocking messages. Celery then connects
        again.

        One check is not enough, because a task ends shortly before its message is acknowledged.
        """
        blocking, self._blocking = self._blocking, _blocking_messages(consumer)
        if self._blocking and self._blocking == blocking:
            raise ConnectionResetError(f"the acknowledgement of {len(blocking)} messages failed")


def _blocking_messages(consumer: Any) -> frozenset[str]:
    """Return the unfinished messages if the worker fetches no more because of them, although it executes no
    task.
    """
    qos = consumer.task_consumer.channel.qos
    return (
        frozenset()
        if qos.can_consume() or state.reserved_requests
        else frozenset(qos._delivered) - qos._dirty
    )
