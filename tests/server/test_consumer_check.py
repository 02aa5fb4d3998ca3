"""A worker that waits for the end of tasks that have ended connects to Redis again."""

from types import SimpleNamespace

import pytest
from celery.worker import state
from kombu import Connection
from kombu.asynchronous.timer import Timer

from authzconsole.celery import app
from authzconsole.consumer_check import ConsumerCheck


class Request:
    """A request in the weak set of Celery."""


@pytest.fixture
def consumer():
    """A consumer that fetches one message at a time, and has fetched one."""
    channel = Connection("memory://").channel()
    channel.basic_qos(prefetch_count=1)
    channel.qos.append(SimpleNamespace(), "tag-1")
    return SimpleNamespace(timer=Timer(), task_consumer=SimpleNamespace(channel=channel))


@pytest.fixture
def check(consumer):
    step = ConsumerCheck(consumer)
    step.start(consumer)
    [entry] = [scheduled.entry for scheduled in consumer.timer.queue]
    # the timer would call it after two seconds
    yield lambda: step._check(*entry.args)
    step.stop(consumer)
    assert entry.canceled


def test_a_failed_acknowledgement_ends_the_connection(check):
    check()
    with pytest.raises(ConnectionResetError, match="the acknowledgement of 1 messages failed"):
        check()


def test_a_task_that_is_executed_may_take_long(check, monkeypatch):
    request = Request()
    monkeypatch.setattr(state, "reserved_requests", {request})
    for _ in range(3):
        check()


def test_acknowledged_messages_do_not_count(check, consumer):
    consumer.task_consumer.channel.qos._dirty.add("tag-1")
    for _ in range(3):
        check()


def test_a_new_message_is_not_one_that_blocks(check, consumer):
    check()
    consumer.task_consumer.channel.qos._delivered.clear()
    consumer.task_consumer.channel.qos.append(SimpleNamespace(), "tag-2")
    check()


def test_the_workers_use_the_check():
    assert ConsumerCheck in app.steps["consumer"]
