"""Jobs of Procrastinate that distribute READY runs to the replicas: one job for each such run.

A job is stored in the transaction that makes its run READY, so that both exist or neither. It only
says which run to look at: a job for a run that another replica has already taken does nothing, and
the loop makes up for a lost job.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import procrastinate
import psycopg
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from procrastinate.types import JSONValue
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from storage.postgres_session import DEFAULT_SCHEMA
from storage.record import Store, Transaction
from storage.transaction import wrap_driver_error

log = logging.getLogger("countersign.replicas")
ADVANCE_TASK = "advance"  # also the name of its queue
SWEEP_TASK = "sweep"
EVERY_MINUTE_CRON = "* * * * *"
POLL_SECONDS = 2.0  # between two polls if no notification comes
HEARTBEAT_SECONDS = 1.0
STALLED_WORKER_SECONDS = 5.0  # a worker without a heartbeat for so long is dead
RESTART_SECONDS = 1.0  # before the queue is started again after a failure
STOP_GRACE_SECONDS = 5.0  # for jobs to finish when the process stops


class RunJobQueue:
    """The queue of jobs, one for each READY run. `run` is a thread's body."""

    def __init__(
        self, address: dict[str, Any], handle_job: Callable[[str], None], at_once: int
    ) -> None:
        """`address`: psycopg's connection arguments.

        `handle_job` is called with a run's id for each job, on any thread, for at most `at_once`
        runs at a time, and must not wait.
        """
        # it logs a line for each job, which the audit already records
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._address, self._handle_job, self._at_once = address, handle_job, at_once
        # never opened: it only builds the statement that stores a job on our own connection; an
        # open app would use its own connections
        self._words = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
        self._stopping = threading.Event()
        self._stop: Callable[[], None] = lambda: None

    def create_job_tables(self, store: Store) -> None:
        """Create Procrastinate's tables in the database, unless they exist."""
        with store.write() as tx:
            if tx.exec_driver_sql("SELECT to_regclass('procrastinate_jobs')").scalar() is None:
                tx.raw.execute(SchemaManager.get_schema())

    def insert_jobs(self, tx: Transaction, ready: Sequence[str]) -> None:
        """Store a job for each of these runs, in the transaction that made them READY."""
        task = self._words.configure_task(ADVANCE_TASK, queue=ADVANCE_TASK, connection=tx.raw)
        try:
            jobs: list[dict[str, JSONValue]] = [{"run_id": each} for each in dict.fromkeys(ready)]
            task.batch_defer(*jobs)
        except ConnectorException as error:
            cause = error.__cause__ or error
            assert isinstance(cause, Exception)
            raise wrap_driver_error(cause, tx.dialect, "a job for a run", ()) from error

    def run(self) -> None:
        """Take jobs until `stop`, and start again after failures; the thread's body."""
        while not self._stopping.is_set():
            try:
                # a pool would retry for long, and less and less often
                psycopg.connect(**self._address).close()
                asyncio.run(self._serve_jobs())
            except Exception as error:
                log.warning("no jobs are taken until a restart in a moment: %s", error)
                log.debug("why jobs stopped", exc_info=True)
            self._stopping.wait(RESTART_SECONDS)

    def stop(self) -> None:
        """Take no more jobs; those in progress have STOP_GRACE_SECONDS seconds to finish."""
        self._stopping.set()
        self._stop()

    def _create_app(self) -> procrastinate.App:
        async def configure(connection: AsyncConnection[Any]) -> None:
            # it runs single statements: BEGIN and COMMIT would be two more round trips
            await connection.set_autocommit(True)
            await connection.execute(f"SET search_path TO {DEFAULT_SCHEMA}; SET DateStyle TO ISO")

        connector = procrastinate.PsycopgConnector(
            pool_factory=_create_unchecked_pool,
            kwargs=self._address,
            min_size=1,
            max_size=4,
            configure=configure,
            timeout=5.0,
        )
        app = procrastinate.App(connector=connector)

        @app.task(name=ADVANCE_TASK, queue=ADVANCE_TASK)
        async def advance(run_id: str) -> None:
            await asyncio.get_running_loop().run_in_executor(None, self._handle_job, run_id)

        # without a periodic task Procrastinate stops supervising the worker right at the start
        @app.periodic(cron=EVERY_MINUTE_CRON)
        @app.task(name=SWEEP_TASK, queue=ADVANCE_TASK, queueing_lock=SWEEP_TASK)
        async def sweep(timestamp: int) -> None:  # noqa: ARG001 # it is called by its name
            await _requeue_stalled_jobs(app)

        return app

    async def _serve_jobs(self) -> None:
        app = self._create_app()
        loop = asyncio.get_running_loop()
        async with app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=[ADVANCE_TASK],
                    concurrency=self._at_once,
                    install_signal_handlers=False,
                    delete_jobs="always",
                    fetch_job_polling_interval=POLL_SECONDS,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=STALLED_WORKER_SECONDS,
                    shutdown_graceful_timeout=STOP_GRACE_SECONDS,
                )
            )
            self._stop = lambda: _cancel_worker_from_thread(loop, worker)
            if self._stopping.is_set():
                worker.cancel()
            sweeping = asyncio.create_task(_requeue_stalled_jobs_repeatedly(app, worker))
            try:
                with suppress(asyncio.CancelledError):
                    await worker
            finally:
                sweeping.cancel()


def _create_unchecked_pool(**given: Any) -> AsyncConnectionPool[Any]:
    """Return a connection pool that does not test connections; `run` recovers from lost ones."""
    return AsyncConnectionPool(**given | {"check": None})


def _cancel_worker_from_thread(loop: asyncio.AbstractEventLoop, worker: asyncio.Task[None]) -> None:
    """Cancel the worker from another thread; do nothing if its event loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(worker.cancel)


async def _requeue_stalled_jobs_repeatedly(
    app: procrastinate.App, worker: asyncio.Task[None]
) -> None:
    while not worker.done():
        await asyncio.sleep(STALLED_WORKER_SECONDS)
        try:
            await _requeue_stalled_jobs(app)
        except Exception as error:  # noqa: BLE001 - it comes again, and the loop looks as well
            log.warning("stalled jobs could not be looked up: %s", error)


async def _requeue_stalled_jobs(app: procrastinate.App) -> None:
    """Put the jobs of dead replicas back into the queue, so that other replicas take them."""
    manager = app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_WORKER_SECONDS):
        with suppress(ConnectorException):  # another replica was faster
            await manager.retry_job(job)
