// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// brings is a deployment with a frontend for the outside, a planner, an endpoint picker and a worker that mounts a claim of its own and one
// that another client has to make.
const brings = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: NAME}
spec:
  pvcs:
  - {name: NAME-weights, create: true, storageClass: shared, size: 1Gi, volumeAccessMode: ReadWriteMany}
  services:
    Frontend:
      componentType: frontend
      ingress: {enabled: true, host: chat, hostSuffix: example.com, ingressControllerClassName: nginx}
      extraPodSpec: {nodeSelector: {e2e.trellis.dev/pool: brings}, mainContainer: {image: "example.com/frontend:1"}}
    Planner:
      componentType: planner
      extraPodSpec: {nodeSelector: {e2e.trellis.dev/pool: brings}, mainContainer: {image: "example.com/planner:1", command: [python3, -m, dynamo.planner]}}
    Picker:
      componentType: epp
      eppConfig: {config: {plugins: [{type: max-score-picker}]}}
      extraPodSpec: {nodeSelector: {e2e.trellis.dev/pool: brings}, mainContainer: {image: "example.com/epp:1"}}
    Worker:
      componentType: worker
      modelRef: {name: tiny/chat-model}
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "1"}}
      volumeMounts: [{name: NAME-weights, mountPoint: /models}, {name: datasets, mountPoint: /data}]
      extraPodSpec:
        nodeSelector: {e2e.trellis.dev/pool: brings}
        mainContainer: {image: "example.com/trtllm:1", command: [python3, -m, dynamo.trtllm]}
`

func (w *world) createText(text string) {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.t.Fatal(err)
	}
	o.SetNamespace(w.name)
	w.create(o)
}

var _ = Describe("What a deployment brings", func() {
	// A deployment brings what its pods rely on, describes what it needs and has not got, and leaves nothing behind. Two of them share what has a
	// well-known name.
	It("is made, repaired, shared and removed with it, and what is missing is named", func(ctx SpecContext) {
		w := newWorld(ctx, "brings", racks(2, 8, "a/r0")...)
		w.createText(strings.ReplaceAll(brings, "NAME", "one"))
		w.createVolume("one-weights")

		By("a claim and a kind that are not there are named")
		const prerequisites = nvidiav1alpha1.ConditionPrerequisitesMet
		w.hasCondition("one", prerequisites, metav1.ConditionFalse, "PrerequisitesMissing", "PersistentVolumeClaim datasets does not exist", "Worker")
		w.hasCondition("one", prerequisites, metav1.ConditionFalse, "PrerequisitesMissing", "InferencePool one-pool cannot be created")
		w.hasCondition("one", nvidiav1alpha1.ConditionReady, metav1.ConditionFalse, "some_resources_are_not_ready", "Missing: PersistentVolumeClaim datasets")

		By("they come, and it continues by itself")
		w.apply(filepath.Join(needs, "examples__backends__vllm__deploy__gaie__agg.needs.yaml"))
		DeferCleanup(func() {
			_ = w.c.Delete(context.Background(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "inferencepools.inference.networking.k8s.io"}})
		})
		w.createVolume("datasets")
		w.create(claimOf(w.name, "datasets"))
		w.hasCondition("one", prerequisites, metav1.ConditionTrue, "AllPrerequisitesMet")
		w.ready("one")
		pool := &unstructured.Unstructured{}
		pool.SetAPIVersion("inference.networking.k8s.io/v1")
		pool.SetKind("InferencePool")
		w.until("the pool is there", func() error { return w.c.Get(ctx, key(w.name, "one-pool"), pool) })

		By("pods may what they need, and no more")
		w.may("one-k8s-service-discovery", "create", "nvidia.com", "dynamoworkermetadatas", true)
		w.may("one-k8s-service-discovery", "list", "discovery.k8s.io", "endpointslices", true)
		w.may("one-k8s-service-discovery", "list", "", "secrets", false)
		w.may("planner-serviceaccount", "patch", "nvidia.com", "dynamographdeployments", true)
		w.may("planner-serviceaccount", "create", "nvidia.com", "dynamoworkermetadatas", true)
		w.may("epp-serviceaccount", "watch", "inference.networking.k8s.io", "inferencepools", true)
		for _, pod := range w.all() {
			want := map[string]string{"Planner": "planner-serviceaccount", "Picker": "epp-serviceaccount"}[pod.Labels["nvidia.com/dynamo-component"]]
			if want == "" {
				want = "one-k8s-service-discovery"
			}
			Expect(pod.Spec.ServiceAccountName).To(Equal(want), "the account of pod %s", pod.Name)
		}
		get(w, &corev1.Service{}, w.name, "dynamo-model-"+modelHash)
		secret := get(w, &corev1.Secret{}, w.name, "mpi-run-ssh-secret")
		Expect(string(secret.Data["private.key"])).To(ContainSubstring("PRIVATE KEY"))
		Expect(string(secret.Data["private.key.pub"])).To(HavePrefix("ssh-rsa "))
		Expect(get(w, &networkingv1.Ingress{}, w.name, "one-frontend").Spec.Rules[0].Host).To(Equal("chat.example.com"))

		By("an ingress is removed; what was deleted is recreated")
		w.patch("one", `{"spec":{"services":{"Frontend":{"ingress":{"enabled":false}}}}}`)
		w.isGone(&networkingv1.Ingress{}, "one-frontend")
		Expect(w.c.Delete(ctx, get(w, &rbacv1.Role{}, w.name, "one-k8s-service-discovery-role"))).To(Succeed())
		w.until("the role is back", func() error {
			return w.c.Get(ctx, key(w.name, "one-k8s-service-discovery-role"), &rbacv1.Role{})
		})

		By("a second deployment shares what the first one has; the last one takes it along")
		w.createText(strings.ReplaceAll(brings, "NAME", "two"))
		w.createVolume("two-weights")
		w.ready("two")
		w.until("both own the planner's account", func() error {
			if n := len(get(w, &corev1.ServiceAccount{}, w.name, "planner-serviceaccount").OwnerReferences); n != 2 {
				return fmt.Errorf("%d owners", n)
			}
			return nil
		})
		w.delete("one")
		w.isGone(&corev1.PersistentVolumeClaim{}, "one-weights")
		w.isGone(&corev1.ServiceAccount{}, "one-k8s-service-discovery")
		w.isGone(pool.DeepCopy(), "one-pool")
		for _, name := range []string{"planner-serviceaccount", "epp-serviceaccount"} {
			get(w, &corev1.ServiceAccount{}, w.name, name)
			get(w, &rbacv1.RoleBinding{}, w.name, name)
		}
		w.delete("two")
		w.isGone(&corev1.ServiceAccount{}, "planner-serviceaccount")
		w.isGone(&corev1.ServiceAccount{}, "epp-serviceaccount")
		w.isGone(&corev1.Service{}, "dynamo-model-"+modelHash)
		get(w, &corev1.PersistentVolumeClaim{}, w.name, "datasets")
	}, SpecTimeout(suite.Timeout()))

	// A packed pod knows its place from the moment it is released.
	It("tells packed pods where they are when they are released", func(ctx SpecContext) {
		w := newWorld(ctx, "place", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		const prefix = "nvidia.com/dynamo-topology."
		for _, pod := range w.all() {
			node := get(w, &corev1.Node{}, "", pod.Spec.NodeName)
			frontend := pod.Labels["nvidia.com/dynamo-component"] == "Frontend" // it may be in any rack of the zone
			Expect(pod.Labels).To(HaveKeyWithValue(prefix+"zone", node.Labels[zoneKey]), "pod %s", pod.Name)
			if got := pod.Labels[prefix+"rack"]; got != "" || !frontend {
				Expect(got).To(Equal(node.Labels[rackKey]), "the rack of pod %s", pod.Name)
			}
			files := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil })
			Expect(files).To(BeTrue(), "pod %s has no files about its place", pod.Name)
			Expect(pod.ManagedFields).NotTo(BeEmpty(), "pod %s: it is released and the API server does not track its managed fields any more", pod.Name)
		}
	}, SpecTimeout(suite.Timeout()))
})

// modelHash is of the model's name.
const modelHash = "68da3ecd"

// may checks what a ServiceAccount of the world is allowed to do there.
func (w *world) may(account, verb, group, resource string, want bool) {
	w.t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               fmt.Sprintf("system:serviceaccount:%s:%s", w.name, account),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.name, Verb: verb, Group: group, Resource: resource},
	}}
	if want { // the authorizer's cache may lag
		w.until(fmt.Sprintf("%s may %s %s", account, verb, resource), func() error {
			again := review.DeepCopy()
			if err := w.c.Create(w.t.Context(), again); err != nil || again.Status.Allowed {
				return err
			}
			return fmt.Errorf("denied: %s", again.Status.Reason)
		})
		return
	}
	w.create(review)
	if review.Status.Allowed {
		w.t.Errorf("%s may %s %s", account, verb, resource)
	}
}

// createVolume makes a volume for a claim of the world.
func (w *world) createVolume(claim string) {
	w.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: "shared",
			ClaimRef:               &corev1.ObjectReference{Namespace: w.name, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + claim}},
		},
	}
	w.create(volume)
	w.t.Cleanup(func() { _ = w.c.Delete(context.Background(), volume) })
}

func claimOf(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: ptr.To("shared"),
			Resources: corev1.VolumeResourceRequirements{Requests: storage()},
		},
	}
}

func storage() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), w.dgd(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) isGone(o client.Object, name string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%T %s is gone", o, name), func() error {
		err := w.c.Get(w.t.Context(), key(w.name, name), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is there, deleting=%v", o.GetDeletionTimestamp())
	})
}
