"""Manifests and request bodies as values. JSON is YAML, so no writer of YAML is needed."""
import itertools
import json

NUMBERS = itertools.count(1)


def yaml_of(*objects):
    return "\n---\n".join(value if isinstance(value, str) else json.dumps(value) for value in objects) + "\n"


def tenant(name, *namespaces, **quota):
    spec = {"namespaces": list(namespaces) or [name]}
    if quota:
        spec["quota"] = quota
    return {"apiVersion": "coterie.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def service(path, uri, labels=None, **spec):
    """Of namespace/name."""
    namespace, _, name = path.partition("/")
    model = {"uri": f"file:{uri}"}
    if "sha256" in spec:
        model["sha256"] = spec.pop("sha256")
    metadata = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "coterie.dev/v1alpha1", "kind": "ModelService", "metadata": metadata, "spec": {"model": model, **spec}}


def matrix(rows=1, columns=3, name="INPUT0", datatype="FP32"):
    """Another one at each call: an input that ran at two crashes of a worker is refused for a time, and rightly."""
    first = next(NUMBERS)
    return {"inputs": [{"name": name, "shape": [rows, columns], "datatype": datatype, "data": [first + i for i in range(rows * columns)]}]}
