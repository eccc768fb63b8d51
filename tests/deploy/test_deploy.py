"""docker/: manifests and the chart against published schemas, alerts and dashboard against a running server."""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import published  # noqa: E402
from quire import BIN, Server  # noqa: E402

DOCKER = HERE.parent.parent / "docker"
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))
CHART = DOCKER / "helm" / "quire"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="skip: no promtool (Debian package prometheus)")


def documents(text):
    return [d for d in yaml.safe_load_all(text) if d is not None]


def pods(document):
    """What a manifest says of a pod, at any depth."""
    if isinstance(document, dict):
        if "containers" in document:
            yield document
        for value in document.values():
            yield from pods(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods(value)


# ---- schemas

@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.stem)
def test_manifest_is_valid(path):
    found = documents(path.read_text())
    assert found
    for document in found:
        assert published.errors(document) == []


def test_schemas_refuse_what_is_wrong():
    """A name that no field has, and a value that one cannot have, in each kind of manifest."""
    kinds = set()
    for document in [d for p in MANIFESTS for d in documents(p.read_text())]:
        wrong = copy.deepcopy(document)
        wrong["spec"]["replicaz"] = 2
        assert published.errors(wrong), document["kind"]
        wrong = copy.deepcopy(document)
        wrong["spec"] = []
        assert published.errors(wrong), document["kind"]
        kinds.add(document["kind"])
    assert kinds == {"Deployment", "StatefulSet", "Service", "InferencePool", "HTTPRoute", "ServingRuntime",
                     "InferenceService", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject"}


@pytest.fixture(scope="module")
def render():
    """Helm's engine, compiled once: the chart with values, as documents."""
    tool = published.FOLDER.resolve() / "render"
    if not tool.exists():
        if published.GO is None:
            pytest.skip("skip: no Go, to compile Helm")
        tool.parent.mkdir(parents=True, exist_ok=True)
        run = subprocess.run([published.GO, "build", "-mod=readonly", "-o", tool, "."], cwd=HERE / "helm", text=True,
                             capture_output=True, timeout=600, check=False)
        if run.returncode != 0 and ("dial tcp" in run.stderr or "403" in run.stderr):
            pytest.skip(f"skip: no module proxy for Helm: {run.stderr[-200:]}")
        assert run.returncode == 0, run.stderr

    def make(tmp_path=None, **values):
        files = []
        if values:
            files = [tmp_path / "values.yaml"]
            files[0].write_text(yaml.safe_dump(values))
        run = subprocess.run([tool, CHART, *files], capture_output=True, text=True, timeout=60, check=False)
        return run.returncode, documents(run.stdout) if run.returncode == 0 else run.stderr
    return make


def test_chart_renders_valid_manifests(render, tmp_path):
    code, plain = render()
    assert code == 0 and sorted(d["kind"] for d in plain) == ["Deployment", "NetworkPolicy", "PodDisruptionBudget",
                                                              "Service"]
    code, all_ = render(tmp_path, apiKeysSecret="keys", inferencePool={"enabled": True}, keda={"enabled": True},
                        settings={"kv_memory": "6g", "max_sequences": 12, "kv_store_rate": 20000000, "aging": 0},
                        store={"claim": "prompts"})
    assert code == 0 and {"InferencePool", "HTTPRoute", "ScaledObject"} <= {d["kind"] for d in all_}
    for document in plain + all_:
        assert published.errors(document) == []
    deployment = next(d for d in all_ if d["kind"] == "Deployment")
    assert "replicas" not in deployment["spec"]  # KEDA's
    env = {e["name"]: e.get("value") for e in next(pods(deployment))["containers"][0]["env"]}
    assert env["QUIRE_KV_STORE_RATE"] == "20000000" and env["QUIRE_AGING"] == "0"  # and not 2e+07
    assert env["QUIRE_KV_MEMORY"] == "6g" and env["QUIRE_MAX_SEQUENCES"] == "12" and "QUIRE_INSECURE" not in env
    assert env["QUIRE_METRICS_NAMES"] == "quire,vllm"  # the default of what was not set
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "prompts"}} in next(pods(deployment))["volumes"]


def test_chart_and_manifest_set_the_same(render, tmp_path):
    """Events, drain and store, which a values file can turn off."""
    [manifest] = [next(pods(d)) for d in documents((DOCKER / "kubernetes" / "deployment.yaml").read_text())]
    code, plain = render()
    [chart] = [next(pods(d)) for d in plain if d["kind"] == "Deployment"]
    assert code == 0
    for a, b in ((manifest, chart), (chart, manifest)):
        a, b = ({e["name"]: e for e in p["containers"][0]["env"]} for p in (a, b))
        assert {n: e for n, e in a.items() if n != "QUIRE_MODEL"}.items() <= b.items()
    assert manifest["containers"][0]["ports"] == chart["containers"][0]["ports"]
    code, off = render(tmp_path, kvEvents={"enabled": False}, store={"enabled": False})
    text = yaml.safe_dump_all(off)
    assert code == 0 and "KV_EVENTS" not in text and "/store" not in text and "5557" not in text


@pytest.mark.parametrize("name", ["deployment", "statefulset", "servingruntime"])
def test_events_are_a_pods(name):
    """llm-d's endpoint picker knows a pod as ADDRESS:PORT, which is the middle of the topic."""
    pod = next(p for n, p in all_pods() if n == name)
    env = {e["name"]: e for e in pod["containers"][0]["env"]}
    assert env["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert list(env).index("POD_IP") < list(env).index("QUIRE_KV_EVENTS_TOPIC")  # else it is not filled in
    topic = env["QUIRE_KV_EVENTS_TOPIC"]["value"].replace("$(POD_IP)", "10.1.2.3")
    s = Server("--kv-events", "full", "--kv-events-endpoint", "tcp://127.0.0.1:0", "--kv-events-topic", topic)
    try:
        assert s.get("/kv_event_sources").json["0"]["topic"] == "kv@10.1.2.3:8080@quire-demo"
    finally:
        s.stop()


@pytest.mark.parametrize("values", [{"replica": 2}, {"replicas": "two"}, {"keda": {"on": True}},
                                    {"terminationGracePeriodSeconds": 3}, {"settings": {"KV": "1"}}])
def test_chart_refuses_values(render, tmp_path, values):
    code, message = render(tmp_path, **values)
    assert code == 1 and "values don't meet the specifications" in message


# ---- pods and this server

def all_pods():
    return [(p.stem, pod) for p in MANIFESTS for d in documents(p.read_text()) for pod in pods(d)]


def test_variables_are_settings():
    """Each QUIRE_ variable of a pod, the chart and compose is a setting, and takes its value."""
    texts = "".join(p.read_text() for p in [*MANIFESTS, DOCKER / "compose.yaml", DOCKER / "Dockerfile",
                                            CHART / "templates" / "deployment.yaml"])
    names = set(re.findall(r"\bQUIRE_([A-Z_]+[A-Z])\b", texts)) - {"PORT"}
    known = subprocess.run([BIN, "serve", "--print-config"], capture_output=True, text=True, check=True).stdout
    settings = {line.split("=")[0].strip() for line in known.splitlines() if "=" in line and line[0] != "#"}
    assert names and {n.lower() for n in names} <= settings
    assert set(yaml.safe_load((CHART / "values.yaml").read_text())["settings"]) <= settings
    for name, pod in all_pods():
        env = {e["name"]: e["value"] for e in pod["containers"][0]["env"] if e["name"] not in ("QUIRE_MODEL", "POD_IP")}
        run = subprocess.run([BIN, "serve", "--print-config"], capture_output=True, text=True,
                             env={**os.environ, **env}, check=False)
        assert run.returncode == 0, (name, run.stderr)


def test_image_is_built_with_what_make_installs():
    """The packages of its first stage are those of tests/deps.mk, and make itself."""
    stage = re.search(r"install -y --no-install-recommends (.*?)&&", (DOCKER / "Dockerfile").read_text(), re.S)[1]
    here = re.search(r"^DEB_BUILD := ((?:.*\\\n)*.*)", (DOCKER.parent / "tests/deps.mk").read_text(), re.M)[1]
    assert sorted(stage.replace("\\", " ").split()) == sorted([*here.replace("\\", " ").split(), "make"])


def test_pods_drain():
    """Probes ask pages that exist; the time to end is longer than what goes before the signal."""
    s = Server()
    try:
        for name, pod in all_pods():
            c = pod["containers"][0]
            for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                if probe in c:
                    assert s.get(c[probe]["httpGet"]["path"]).status == 200, (name, probe)
            assert c["readinessProbe"]["httpGet"]["path"] == "/ready"
            assert c["livenessProbe"]["httpGet"]["path"] == "/live"  # 200 while it drains
            if "lifecycle" in c:
                slept = int(c["lifecycle"]["preStop"]["exec"]["command"][1])
                drains = next(int(e["value"]) for e in c["env"] if e["name"] == "QUIRE_DRAIN_MS")
                assert pod["terminationGracePeriodSeconds"] >= slept + drains / 1000 + 20
    finally:
        s.stop()


# ---- Prometheus and Grafana

def promtool(*args, **more):
    run = subprocess.run([PROMTOOL, *map(str, args)], capture_output=True, text=True, check=False, **more)
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
def test_alerts(tmp_path):
    promtool("check", "config", DOCKER / "prometheus" / "prometheus.yml")
    alerts = DOCKER / "prometheus" / "alerts.yml"
    (tmp_path / "test.yml").write_text((HERE / "alerts_test.yml").read_text().replace("ALERTS", str(alerts)))
    promtool("test", "rules", tmp_path / "test.yml")
    tested = set(re.findall(r"alertname: (\w+)", (HERE / "alerts_test.yml").read_text()))
    rules = yaml.safe_load(alerts.read_text())["groups"][0]["rules"]
    assert tested == {r["alert"] for r in rules}


def expressions():
    for rule in yaml.safe_load((DOCKER / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]
    for panel in json.loads((DOCKER / "grafana" / "quire.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
    for document in documents((DOCKER / "kubernetes" / "scaledobject.yaml").read_text()):
        for trigger in document["spec"]["triggers"]:
            yield "ScaledObject", trigger["metadata"]["query"]


def test_every_metric_is_served():
    """A metric that an alert, a panel or KEDA names is one that a server serves from its start on."""
    s = Server("--metrics-names", "quire,vllm")
    try:
        page = s.get("/metrics").body.decode()
    finally:
        s.stop()
    served = set(re.findall(r"^# TYPE (\S+) ", page, re.M)) | {"up"}
    n = 0
    for where, expression in expressions():
        names = re.findall(r"\b(?:quire_|vllm:|process_)\w+", expression)
        for name in names:
            n += 1
            assert name in served or name.removesuffix("_bucket") in served, (where, name)
        assert names or "up{" in expression, where
    assert n > 25


@needs_promtool
def test_every_expression_parses(tmp_path):
    rules = [{"record": f"x:{i}", "expr": e} for i, (_, e) in enumerate(expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    promtool("check", "rules", "--lint=none", tmp_path / "rules.yml")


def test_dashboard():
    board = json.loads((DOCKER / "grafana" / "quire.json").read_text())
    ids = [p["id"] for p in board["panels"]]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(ids)) == len(ids) and len(set(places)) == len(places)
    variables = {v["name"] for v in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board["panels"])))
    assert used <= variables | {"__rate_interval"}


def test_compose():
    """Every file that a service mounts is there."""
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert set(services) == {"quire", "prometheus", "grafana"}
    mounted = [v.split(":")[0] for s in services.values() for v in s.get("volumes", []) if v.startswith("./")]
    assert len(mounted) == 5 and all((DOCKER / m).is_file() for m in mounted)
