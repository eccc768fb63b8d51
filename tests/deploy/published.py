"""Schemas that Kubernetes and the makers of custom resources publish, at locked versions, from the registries."""
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

import jsonschema
import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixtures"))
from registry import fetch  # noqa: E402

FOLDER = pathlib.Path("build/deploy")
KUBERNETES = "v1.34.0-local-strict"  # of the package's folders
WHEEL = ("kubernetes-validate", "kubernetes_validate-1.37.0-py3-none-any.whl",
         "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9")
GO = shutil.which("go")

# kind: Go module, its hash, the definition in it
CUSTOM = {
    "InferencePool": ("sigs.k8s.io/gateway-api-inference-extension@v1.5.0",
                      "h1:w9Awt60cmI1vM7Y6N81h8wDCBP0WkmxpdI7GKY0v070=",
                      "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"),
    "HTTPRoute": ("sigs.k8s.io/gateway-api@v1.3.0", "h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M=",
                  "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
    "ScaledObject": ("github.com/kedacore/keda/v2@v2.19.0", "h1:IP3iMTwr9HkaAwPtLnhngPv74LghMf7ubLrsGLQo52M=",
                     "config/crd/bases/keda.sh_scaledobjects.yaml"),
    "ServingRuntime": ("github.com/kserve/kserve@v0.17.0", "h1:IaynaBFzVQz1Xyrw5n3ncqzd5Y7L1RkO+YWvVwwtMQE=",
                       "config/crd/full/serving.kserve.io_servingruntimes.yaml"),
    "InferenceService": ("github.com/kserve/kserve@v0.17.0", "h1:IaynaBFzVQz1Xyrw5n3ncqzd5Y7L1RkO+YWvVwwtMQE=",
                         "config/crd/full/serving.kserve.io_inferenceservices.yaml"),
}


@functools.cache
def kubernetes():
    """The folder of Kubernetes' own schemas; a field that is none of them is an error there."""
    target = FOLDER / "kubernetes" / KUBERNETES
    if not target.is_dir():
        try:
            wheel = fetch(*WHEEL, FOLDER)
        except OSError as e:
            pytest.skip(f"skip: no package registry for {WHEEL[1]}: {e}")
        with zipfile.ZipFile(wheel) as z:
            prefix = f"kubernetes_validate/kubernetes-json-schema/{KUBERNETES}/"
            names = [n for n in z.namelist() if n.startswith(prefix)]
            target.mkdir(parents=True)
            for name in names:
                (target / name.removeprefix(prefix)).write_bytes(z.read(name))
    return target


@functools.cache
def module(name, locked):
    """The folder of a Go module of that hash."""
    if GO is None:
        pytest.skip(f"skip: no Go, whose module proxy has {name}")
    run = subprocess.run([GO, "mod", "download", "-json", name], capture_output=True, text=True, timeout=120,
                         cwd=FOLDER.parent, check=False)
    found = json.loads(run.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"skip: no module proxy for {name}: {found.get('Error', run.stderr)[:200]}")
    assert found["Sum"] == locked, f"{name} is not the module that was locked"
    return pathlib.Path(found["Dir"])


def strict(schema):
    """A structural schema as the API server reads it: fields that it does not name are refused."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: ({n: strict(s) for n, s in v.items()} if k == "properties" else strict(v)) for k, v in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and \
            not schema.get("x-kubernetes-preserve-unknown-fields") and schema.get("type") == "object":
        out["additionalProperties"] = False
    if schema.get("nullable") and isinstance(schema.get("type"), str):
        out["type"] = [schema["type"], "null"]
    return out


@functools.cache
def custom(kind, version):
    name, locked, path = CUSTOM[kind]
    crd = yaml.safe_load((module(name, locked) / path).read_text())
    schema = next(v for v in crd["spec"]["versions"] if v["name"] == version and v["served"])
    whole = strict(schema["schema"]["openAPIV3Schema"])
    whole["properties"]["metadata"] = {"type": "object"}
    return crd["spec"]["group"], jsonschema.Draft7Validator(whole)


@functools.cache
def definitions(_url):
    return json.loads((kubernetes() / "_definitions.json").read_text())


@functools.cache
def core(kind, group, version):
    folder = kubernetes()
    name = f"{kind}-{group.split('.')[0]}-{version}" if group else f"{kind}-{version}"
    path = folder / f"{name.lower()}.json"
    assert path.is_file(), f"Kubernetes has no {group}/{version} {kind}"
    schema = json.loads(path.read_text())
    # A reference leads to the definitions beside it, whatever address the schema has for itself.
    resolver = jsonschema.RefResolver("", schema, handlers={"https": definitions, "": definitions})
    return jsonschema.Draft7Validator(schema, resolver=resolver)


def errors(document):
    """What is wrong with a manifest, as sentences."""
    group, _, version = document["apiVersion"].rpartition("/")
    if document["kind"] in CUSTOM:
        found, validator = custom(document["kind"], version)
        assert found == group
    else:
        validator = core(document["kind"], group, version)
    return [f"{document['kind']} {'.'.join(map(str, e.absolute_path))}: {e.message[:200]}"
            for e in validator.iter_errors(document)]
