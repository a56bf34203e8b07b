# Copyright The Trellis Authors.
# SPDX-License-Identifier: Apache-2.0

"""Sends the requests of the Dynamo planner with its Python client to a sandbox: make test-planner.

The planner knows a deployment and the names of its components. It uses the service account that Trellis creates for the planners of a
namespace, and only the rights of that account's Role. It scales through the scale subresource of a component's adapter or, without an adapter
(404), with a JSON patch of the deployment at the component's index. It waits for the condition Ready, status.observedGeneration,
status.rollingUpdate and the replica counts, and reads the GPUs of an engine and of a replica, and the Dynamo namespace of the workers.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import yaml
from kubernetes import client, config, watch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "bin" / "kubectl-trellis"
GROUP, VERSION, NAMESPACE, NAME = "nvidia.com", "v1beta1", "default", "llm"
DEPLOYMENTS, ADAPTERS = "dynamographdeployments", "dynamographdeploymentscalingadapters"
ACCOUNT = "planner-serviceaccount"
PATIENCE = 120  # seconds


class JSONPatchClient(client.ApiClient):
    """Sends every body as a JSON patch. Python clients newer than Debian's detect a JSON patch by the body."""

    def select_header_content_type(self, content_types, method=None, body=None):
        return "application/json-patch+json"


class Planner:
    """Sends only requests that the planner sends."""

    def __init__(self, configuration):
        self.api = client.CustomObjectsApi(client.ApiClient(configuration))
        self.patches = client.CustomObjectsApi(JSONPatchClient(configuration))
        self.core = client.CoreV1Api(client.ApiClient(configuration))

    def get(self):
        return self.api.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, DEPLOYMENTS, NAME)

    def list(self):
        return self.api.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, DEPLOYMENTS)["items"]

    def scale(self, component, replicas):
        """Scales through the adapter, or else through the deployment, and returns which one it used."""
        name = f"{NAME}-{component.lower()}"
        try:
            self.api.patch_namespaced_custom_object_scale(GROUP, VERSION, NAMESPACE, ADAPTERS, name, {"spec": {"replicas": replicas}})
            return "adapter"
        except client.ApiException as e:
            if e.status != 404:
                raise
        names = [c["name"] for c in self.get()["spec"]["components"]]
        self.patch_at(names.index(component), component, replicas)
        return "deployment"

    def patch_at(self, index, component, replicas):
        path = f"/spec/components/{index}"
        self.patches.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, DEPLOYMENTS, NAME, [
            {"op": "test", "path": path + "/name", "value": component},
            {"op": "add", "path": path + "/replicas", "value": replicas},
        ])

    def wait(self, wanted):
        """Waits until each component of wanted is stable with the given number of replicas."""
        why = "it was not seen"
        for event in watch.Watch().stream(self.api.list_namespaced_custom_object, GROUP, VERSION, NAMESPACE, DEPLOYMENTS,
                                          field_selector=f"metadata.name={NAME}", timeout_seconds=PATIENCE):
            why = unstable(event["object"], wanted)
            if why is None:
                return
        raise AssertionError(f"{NAME} is not stable with {wanted} after {PATIENCE} seconds: {why}")

    def pods(self, component):
        selector = f"nvidia.com/dynamo-graph-deployment-name={NAME},nvidia.com/dynamo-component={component}"
        pods = self.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return [p for p in pods if p.metadata.deletion_timestamp is None]


def unstable(deployment, wanted):
    """Returns why the planner would wait; None if the deployment is stable."""
    status = deployment.get("status", {})
    phase = status.get("rollingUpdate", {}).get("phase")
    if phase == "Failed":
        raise AssertionError("the update failed")
    if phase in ("Pending", "InProgress"):
        return f"the update is {phase}"
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return "its generation is not observed"
    if not any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])):
        return "it is not Ready"
    for component in deployment["spec"]["components"]:
        name = component["name"]
        counted = status.get("components", {}).get(name, {})
        serving = counted.get("availableReplicas", counted.get("readyReplicas"))
        numbers = (component["replicas"], counted.get("updatedReplicas"), serving)
        if name in wanted and numbers != (wanted[name],) * 3:
            return f"{name}: wanted, updated, serving are {numbers}"
    return None


def shape(deployment, component):
    """Returns the GPUs of an engine and of a replica, as the planner on Dynamo's main branch reads them; None while they are unknown."""
    status = deployment.get("status", {})
    counted = status.get("components", {}).get(component, {})
    engine, replica = counted.get("gpusPerEngine"), counted.get("gpusPerReplica")
    if status.get("observedGeneration") != deployment["metadata"]["generation"] or engine is None or replica is None:
        return None
    if not isinstance(engine, int) or not isinstance(replica, int) or min(engine, replica) < 0 or engine > 0 and replica == 0:
        raise AssertionError(f"{component}: {engine} and {replica} GPUs are no shape")
    return engine, replica


class TestPlanner(unittest.TestCase):
    """Starts a sandbox with the operator, and a deployment with a planner in it."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="planner")  # short, because of the path of a socket
        cls.addClassCleanup(cls.dir.cleanup)
        sandbox = ["--name", "planner", "--dir", os.path.join(cls.dir.name, "s")]
        cls.addClassCleanup(subprocess.run, [PLUGIN, "sandbox", "down", *sandbox], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PLUGIN, "sandbox", "up", *sandbox, "--zones", "1", "--blocks", "1", "--racks", "2", "--hosts", "4"],
                       cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        cls.kubeconfig = os.path.join(cls.dir.name, "s", "kubeconfig")
        admin = config.new_client_from_config(cls.kubeconfig)
        api = client.CustomObjectsApi(admin)
        topology, deployment = yaml.safe_load_all((pathlib.Path(__file__).parent / "graph.yaml").read_text())
        api.create_cluster_custom_object("grove.io", "v1alpha1", "clustertopologies", topology)
        api.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, DEPLOYMENTS, deployment)
        Planner(admin.configuration).wait({"VllmDecodeWorker": 1, "VllmPrefillWorker": 1})
        cls.planner = Planner(cls.of_account(admin))

    @staticmethod
    def of_account(admin):
        """Returns the configuration of a program in a pod with the planners' account: it has only the token."""
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        token = client.CoreV1Api(admin).create_namespaced_service_account_token(ACCOUNT, NAMESPACE, request)
        out = client.Configuration()
        out.host, out.ssl_ca_cert = admin.configuration.host, admin.configuration.ssl_ca_cert
        out.api_key = {"authorization": "Bearer " + token.status.token}
        return out

    def test_scales_both_ways(self):
        p = self.planner
        for n in (2, 0, 1):
            self.assertEqual(p.scale("VllmDecodeWorker", n), "adapter")
            self.assertEqual(p.scale("VllmPrefillWorker", n), "deployment")
            p.wait({"VllmDecodeWorker": n, "VllmPrefillWorker": n, "Frontend": 1})
            self.assertEqual(len(p.pods("VllmDecodeWorker")), 2 * n)
            self.assertEqual(len(p.pods("VllmPrefillWorker")), n)

    def test_finds_its_deployment(self):
        self.assertEqual([d["metadata"]["name"] for d in self.planner.list()], [NAME])
        names = [c["name"] for c in self.planner.get()["spec"]["components"]]
        self.assertEqual(names, ["VllmPrefillWorker", "Frontend", "VllmDecodeWorker", "Planner"])

    def test_reads_what_workers_publish(self):
        self.planner.api.list_namespaced_custom_object(GROUP, "v1alpha1", NAMESPACE, "dynamoworkermetadatas")

    def test_reads_shapes(self):
        self.planner.wait({})
        deployment = self.planner.get()
        shapes = {c["name"]: shape(deployment, c["name"]) for c in deployment["spec"]["components"]}
        self.assertEqual(shapes, {"VllmPrefillWorker": (8, 8), "Frontend": (0, 0), "VllmDecodeWorker": (16, 16), "Planner": (0, 0)})

    def test_finds_the_namespace_of_the_workers(self):
        self.planner.wait({})
        deployment = self.planner.get()
        self.assertEqual(deployment["status"]["state"], "successful")
        generation = deployment["metadata"]["annotations"]["nvidia.com/current-worker-hash-v2"]
        for worker in ("VllmPrefillWorker", "VllmDecodeWorker"):
            counted = deployment["status"]["components"][worker]
            self.assertEqual(counted["runtimeNamespace"], f"{NAMESPACE}-{NAME}-{generation}")
            names = [p.metadata.name for p in self.planner.pods(worker)]
            self.assertTrue(all(any(pod.startswith(name + "-") for name in counted["componentNames"]) for pod in names), names)

    def test_index_of_another_component(self):
        with self.assertRaises(client.ApiException) as caught:
            self.planner.patch_at(1, "VllmPrefillWorker", 5)
        self.assertEqual(caught.exception.status, 422)

    def test_is_no_administrator(self):
        with self.assertRaises(client.ApiException) as caught:
            self.planner.api.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, DEPLOYMENTS, NAME)
        self.assertEqual(caught.exception.status, 403)


if __name__ == "__main__":
    unittest.main()
