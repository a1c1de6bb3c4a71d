"""`python -m awa_operator`: runs one replica until SIGTERM.

Exits with 0 after SIGTERM or SIGINT, 1 when a part ended that must not, 78 when a setting cannot be
used.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping

from awa_operator import __version__, logs
from awa_operator.errors import SettingsError
from awa_operator.kube import find_access
from awa_operator.metrics import Metrics
from awa_operator.process import BeforeWrite, Process, let_pass
from awa_operator.settings import OperatorSettings

log = logging.getLogger("awa_operator")

DONE, FAILED, CONFIGURATION = 0, 1, 78


def main(environ: Mapping[str, str] | None = None, before_write: BeforeWrite = let_pass) -> int:
    """Run until a signal; return the exit code. `before_write` is for tests."""
    try:
        settings = OperatorSettings.from_environment(os.environ if environ is None else environ)
    except SettingsError as error:
        print(f"awa-operator: {error}", file=sys.stderr)
        return CONFIGURATION
    logs.configure(settings.log_level)
    try:
        return asyncio.run(_run(settings, before_write))
    except SettingsError as error:
        log.error("cannot start: %s", error)
        return CONFIGURATION


async def _run(settings: OperatorSettings, before_write: BeforeWrite) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logs.note_task_errors(loop)
    metrics = Metrics()
    access = await find_access(settings.kubeconfig, metrics.request)
    process = Process(settings, access, metrics, before_write)
    try:
        servers, health_port, metrics_port = await process.start_pages()
    except OSError as error:
        log.error("cannot listen", extra={"error": str(error)})
        return FAILED
    log.info(
        "starts",
        extra={
            "version": __version__,
            "identity": settings.identity,
            "namespaces": list(settings.namespaces) or "all",
            "health_port": health_port,
            "metrics_port": metrics_port,
        },
    )
    try:
        await process.run(stop)
    except Exception:
        log.exception("a part of the operator ended that must not")
        return FAILED
    finally:
        for server in servers:
            server.close()
    log.info("ended")
    return DONE


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # All is closed and the lease given up; taking the interpreter apart would only cost time.
    os._exit(code)
