"""`isrr serve`: rankings over HTTP."""

import os
import ssl
from pathlib import Path
from typing import Annotated

from isrr.cli import inputs
from isrr.cli import options as o
from isrr.cli.console import say_aside
from isrr.counting import counted
from isrr.errors import MissingExtraError, PromiseError

LOG, ROLLOUT, LIMITS = "Log", "Rollout of a certificate from clicks", "Limits"
TLS, UPSTREAM = "Encryption", "Scores from another service"


def serve(
    ranker: o.RankerFile,
    host: Annotated[str, o.option("Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, o.option("Port to listen on.", min=0, max=65535)] = 8080,
    workers: Annotated[int, o.option("Number of server processes.", min=1)] = 1,
    api_key: Annotated[
        str | None, o.option("Key that clients must send; safer in ISRR_API_KEY.", show_default=False)
    ] = None,
    rotate: Annotated[
        str | None,
        o.option("For requests without a session: how long a query keeps its order, e.g. 1d or 1h."),
    ] = None,
    access_log: Annotated[bool, o.option("Log every request.", "--access-log")] = False,
    log: Annotated[Path | None, o.option("Folder for the log of served rankings.", panel=LOG)] = None,
    log_megabytes: Annotated[int, o.option("Size at which a new log file is started.", panel=LOG, min=1)] = 256,
    log_compress: Annotated[
        bool, o.option("Compress each log file (gzip) once it is closed.", "--log-compress", panel=LOG)
    ] = False,
    rollout: Annotated[bool, o.option("Start or resume the rollout.", "--rollout", panel=ROLLOUT)] = False,
    control: Annotated[float, o.option("Share of sessions that get the order by score.", panel=ROLLOUT)] = 0.5,
    budget: Annotated[
        int, o.option("Number of sessions after which an undecided step fails.", panel=ROLLOUT, min=1)
    ] = 200_000,
    least_days: Annotated[
        float,
        o.option(
            "Days after which a step can first be decided, and then again after as many more. Choose a full cycle of "
            "your traffic. 0: any analysis may decide.",
            panel=ROLLOUT,
            min=0,
        ),
    ] = 7.0,
    steps: Annotated[int, o.option("Largest number of steps.", panel=ROLLOUT, min=1)] = 4,
    max_items: Annotated[int, o.option("Longest list of candidates.", panel=LIMITS, min=1)] = 10_000,
    max_body_megabytes: Annotated[int, o.option("Largest request body.", panel=LIMITS, min=1)] = 16,
    max_concurrency: Annotated[int, o.option("Concurrent requests per worker.", panel=LIMITS, min=1)] = 256,
    tls_cert: Annotated[Path | None, o.option("TLS certificate (PEM), with its chain.", panel=TLS)] = None,
    tls_key: Annotated[Path | None, o.option("Private key of the TLS certificate (PEM).", panel=TLS)] = None,
    upstream: Annotated[
        str | None,
        o.option(
            "URL of a rerank service that scores texts that come without scores, such as http://127.0.0.1:8081/rerank; "
            "its key is read from ISRR_UPSTREAM_KEY.",
            panel=UPSTREAM,
        ),
    ] = None,
    upstream_model: Annotated[
        str | None,
        o.option(
            "Name of the model to request; the API is then that of Cohere, Jina and vLLM, otherwise that of "
            "text-embeddings-inference.",
            panel=UPSTREAM,
        ),
    ] = None,
    upstream_timeout: Annotated[
        float, o.option("Timeout in seconds, including one retry.", panel=UPSTREAM, min=0.001)
    ] = 10.0,
    upstream_calls: Annotated[int, o.option("Concurrent calls per worker.", panel=UPSTREAM, min=1)] = 64,
    trust_edited: o.Trust = False,
) -> None:
    """Serve rankings over HTTP: send candidates with scores, get them in order.

    isrr serve ranker.json --port 8080 --workers 2 --log served/
    """
    try:
        from isrr.serve.command import run
        from isrr.serve.upstream import Upstream
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "serve") from None
    outcome = inputs.load_ranker(ranker, trust_edited)
    if log is not None:
        inputs.check_folder(log)
    if (tls_cert is None) != (tls_key is None):
        raise PromiseError("TLS needs a certificate and its key; expected both `tls_cert=` and `tls_key=`")
    if tls_cert is not None and tls_key is not None:
        _check_tls(tls_cert, tls_key)
    if upstream is not None and not upstream.startswith(("http://", "https://")):
        raise PromiseError(f"`upstream=` must be a URL, got {upstream}; expected one like http://127.0.0.1:8081/rerank")
    if rollout:
        from isrr.clicks.rollout import Rollout, read_rollout

        if log is None:
            raise PromiseError("a rollout needs a served-ranking log; expected a folder as `log=`")
        begun = read_rollout(ranker, outcome.id)
        if begun is None:
            Rollout.begin(outcome, control, budget, least_days, steps).save(ranker)
        else:
            say_aside(
                f"this rollout goes on as it began: control {begun.control:g}, budget {begun.budget:,}, least days "
                f"{begun.least_days:g}, {counted(len(begun.steps), 'step')}"
            )
    called = upstream_model, os.environ.get("ISRR_UPSTREAM_KEY"), upstream_timeout, upstream_calls
    run(
        ranker.absolute(), host=host, port=port, workers=workers, access_log=access_log, tls_cert=tls_cert,
        tls_key=tls_key, trust_edited=trust_edited,
        api_key=os.environ.get("ISRR_API_KEY") if api_key is None else api_key,
        log=None if log is None else log.absolute(), log_bytes=log_megabytes << 20, log_compress=log_compress,
        rotate=inputs.seconds(rotate), rollout=rollout, max_body=max_body_megabytes << 20, max_items=max_items,
        max_concurrency=max_concurrency, upstream=upstream and Upstream(upstream, *called),
    )  # fmt: skip


def _check_tls(cert: Path, key: Path) -> None:
    """Refuse what is no TLS certificate with its key; a key with a password, instead of a prompt for it."""
    for file in (cert, key):
        file.open("rb").close()
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key, password="")
    except ssl.SSLError:
        raise PromiseError(
            f"{cert} and {key}: not a TLS certificate and its key; expected both in PEM, the key without a password"
        ) from None
