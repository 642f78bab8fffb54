"""The folder to deploy from: each file is read by the program that it is for."""

import json
import math
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from command_line import start
from isrr.outcome.status import Status
from serving import Server

DEPLOY = Path(__file__).parents[2] / "deploy"
ITEMS = [{"id": n, "score": 1.2 - n / 9} for n in range(9)]


def needs(program, package):
    missing = f"no {program} on this machine (Debian: apt-get install {package})"
    return pytest.mark.skipif(shutil.which(program) is None, reason=missing)


@needs("systemd-analyze", "systemd")
def test_systemd_accepts_the_unit(tmp_path):
    unit = (DEPLOY / "isrr.service").read_text()
    for name, program, accepted in (("good", sys.executable, True), ("bad", "/nowhere/isrr", False)):
        (tmp_path / f"{name}.service").write_text(unit.replace("/opt/isrr/bin/isrr", program))
        command = ["systemd-analyze", "verify", "--man=no", tmp_path / f"{name}.service"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode == 0 and not done.stderr) == accepted, done.stderr


@needs("promtool", "prometheus")
def test_alerts_fire_when_they_should_and_only_then(tmp_path):
    for file in (DEPLOY / "alerts.yml", DEPLOY / "prometheus.yml", Path(__file__).with_name("alerts_test.yml")):
        shutil.copy(file, tmp_path)
    for check in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *check], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A Prometheus with the files of the folder, but for its haste; it scrapes a service on the loopback."""

    def __init__(self, service, folder):
        config = (DEPLOY / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}").replace("15s", "1s")
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(DEPLOY / "alerts.yml", folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}/api/v1"
        address = self.url.removeprefix("http://").removesuffix("/api/v1")
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command = ["prometheus", *options, f"--web.listen-address={address}", "--log.level=error"]
        self.process = subprocess.Popen(command)

    def query(self, expression):
        """The value of each series that an expression gives."""
        answer = httpx.get(f"{self.url}/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        return [float(each["value"][1]) for each in answer["data"]["result"]]

    def firing(self):
        alerts = httpx.get(f"{self.url}/alerts").json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@pytest.fixture
def prometheus(certificate, tmp_path):
    certificate.save(tmp_path / "ranker.json")
    service = Server(tmp_path / "ranker.json", "--workers", "2", "--log", str(tmp_path / "log"))
    scraping = Prometheus(service, tmp_path)
    yield service, scraping
    scraping.process.terminate()
    scraping.process.wait(60)
    service.kill()


@needs("prometheus", "prometheus")
def test_prometheus_scrapes_the_service_evaluates_the_alerts_and_answers_the_dashboard(
    prometheus, certificate, tmp_path
):
    service, scraping = prometheus

    def rank(expected=200):
        queries = [{"query_id": n, "session": "s", "items": ITEMS} for n in range(20)]
        assert service.post("/rank/batch", {"queries": queries}).status_code == expected
        assert service.post("/rank", queries[0]).status_code == expected

    service.wait(lambda: scraping.query('up{job="isrr"}') == [1.0])
    end = time.monotonic() + 5
    while time.monotonic() < end:  # rates need several scrapes
        rank()
        time.sleep(0.3)
    empty, expressions = [], [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(expressions) > 10
    for expression in expressions:
        for variable, value in (("$instance", ".*"), ("$__rate_interval", "20s"), ("$__range", "20s")):
            expression = expression.replace(variable, value)
        values = scraping.query(expression)
        empty += [] if values and all(map(math.isfinite, values)) else [expression]
    assert not empty
    assert scraping.firing() == set()
    Status(certificate.id, "revoked", "tested").save(tmp_path / "ranker.json")
    service.wait(lambda: scraping.firing() == {"IsrrCertificateInvalid"})
    (tmp_path / "log").rename(tmp_path / "away")
    rank(503)
    service.wait(lambda: scraping.firing() == {"IsrrCertificateInvalid", "IsrrLogNotWritable"})


def dashboard():
    return json.loads((DEPLOY / "dashboard.json").read_text())


def test_the_dashboard_asks_for_metrics_that_there_are_and_no_panel_covers_another(client):
    metrics = client.get("/metrics").text
    taken = set()
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            for name in re.findall(r"isrr_\w+", target["expr"]):
                assert name.removesuffix("_total").removesuffix("_bucket") in metrics, name
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def instructions():
    """The steps of the Containerfile."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_starts_the_service_on_its_mounted_ranker(ranker_file, tmp_path):
    (entry,) = (json.loads(rest) for name, rest in instructions() if name == "ENTRYPOINT")
    (given,) = (json.loads(rest) for name, rest in instructions() if name == "CMD")
    assert entry[0] == "/opt/isrr/bin/isrr"
    options = [*entry[1:], *given]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for there, here in (("8080", port), ("0.0.0.0", "127.0.0.1"), ("/rankers/ranker.json", str(ranker_file))):
        options[options.index(there)] = here
    options[options.index("/served")] = str(tmp_path / "served")
    service = start("-m", "isrr", *options)
    try:
        said = next(line for line in service.stderr if "accepting requests" in line)
        assert f"127.0.0.1:{port}" in said
    finally:
        service.terminate()
        service.wait(60)
        service.stderr.close()
