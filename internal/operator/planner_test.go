// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// plannedByMain has its components in an order that is not the names', with and without an adapter.
const plannedByMain = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: llm}
spec:
  components:
  - name: Frontend
    type: frontend
    podTemplate: {spec: {containers: [{name: main, image: "example.com/frontend:1"}]}}
  - name: Prefill
    type: prefill
    podTemplate:
      spec:
        initContainers: [{name: warm, image: "example.com/warm:1", resources: {limits: {nvidia.com/gpu: 4}}}]
        containers:
        - {name: main, image: "example.com/vllm:1", args: ["--model", "m"], resources: {limits: {nvidia.com/gpu: 2}}}
  - name: Decode
    type: decode
    replicas: 1
    scalingAdapter: {}
    podTemplate:
      spec:
        containers:
        - {name: main, image: "example.com/vllm:1", resources: {limits: {nvidia.com/gpu: 2}}}
        - {name: side, image: "example.com/side:1", resources: {limits: {nvidia.com/gpu: 1}}}
  - name: Wide
    type: worker
    replicas: 0
    multinode: {nodeCount: 2}
    podTemplate: {spec: {containers: [{name: main, image: "example.com/vllm:1", resources: {limits: {nvidia.com/gpu: 8}}}]}}
  - name: Planner
    type: planner
    podTemplate: {spec: {containers: [{name: main, image: "example.com/planner:1"}]}}
`

// plannerOfMain sends the requests of the planner on Dynamo's main branch, with the rights of its account alone, and reads what that reads.
type plannerOfMain struct {
	*bare
	namespace, node string
	api             dynamic.Interface
}

func (b *bare) plannerOfMain(namespace string) *plannerOfMain {
	GinkgoHelper()
	token, account := &authenticationv1.TokenRequest{}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "planner-serviceaccount"}}
	b.until("the planners' account gives a token", func() error { return b.c.SubResource("token").Create(b.ctx, account, token) })
	config := rest.AnonymousClientConfig(b.config)
	config.QPS, config.BearerToken = -1, token.Status.Token
	api, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return &plannerOfMain{b, namespace, newNode(b.c), api}
}

func (p *plannerOfMain) of(group, version, resource string) dynamic.ResourceInterface {
	return p.api.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(p.namespace)
}

// get the deployment, and play the kubelet of its pods.
func (p *plannerOfMain) get() (*unstructured.Unstructured, error) {
	GinkgoHelper()
	p.endPods(p.namespace)
	for _, pod := range p.pods(p.namespace) {
		if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 {
			Expect(p.c.SubResource("binding").Create(p.ctx, &pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: p.node}})).To(Succeed())
			ready := pod.DeepCopy()
			ready.Status.Phase = corev1.PodRunning
			ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			Expect(client.IgnoreNotFound(p.c.Status().Patch(p.ctx, ready, client.MergeFrom(&pod)))).To(Succeed())
		}
	}
	return p.of("nvidia.com", "v1beta1", "dynamographdeployments").Get(p.ctx, "llm", metav1.GetOptions{})
}

// errNoShape is what the planner treats as a shape that is not available yet: it does not scale.
var errNoShape = errors.New("the shape is not available")

// shape is the GPUs of an engine and of a replica, as the planner takes them from the status.
func shape(dgd *unstructured.Unstructured, component string) (engine, replica int64, err error) {
	observed, _, _ := unstructured.NestedInt64(dgd.Object, "status", "observedGeneration")
	engine, hasEngine, err := unstructured.NestedInt64(dgd.Object, "status", "components", component, "gpusPerEngine")
	replica, hasReplica, err2 := unstructured.NestedInt64(dgd.Object, "status", "components", component, "gpusPerReplica")
	switch {
	case errors.Join(err, err2) != nil:
		return 0, 0, errors.Join(err, err2)
	case observed != dgd.GetGeneration() || !hasEngine || !hasReplica:
		return 0, 0, errNoShape
	case engine < 0 || replica < 0 || replica == 0 && engine > 0:
		return 0, 0, fmt.Errorf("%d and %d GPUs are no shape", engine, replica)
	}
	return engine, replica, nil
}

// mayScale explains why the planner does not scale now.
func mayScale(dgd *unstructured.Unstructured) error {
	if observed, _, _ := unstructured.NestedInt64(dgd.Object, "status", "observedGeneration"); observed != dgd.GetGeneration() {
		return errors.New("the generation is not observed")
	}
	if phase, _, _ := unstructured.NestedString(dgd.Object, "status", "rollingUpdate", "phase"); phase == "Pending" || phase == "InProgress" || phase == "Failed" {
		return fmt.Errorf("the update is %s", phase)
	}
	conditions, _, _ := unstructured.NestedSlice(dgd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
			state, _, _ := unstructured.NestedString(dgd.Object, "status", "state")
			if state != "successful" {
				return fmt.Errorf("it is Ready, and the state is %s", state)
			}
			return nil
		}
	}
	return fmt.Errorf("it is not Ready: %v", conditions)
}

// scales waits until the planner may scale, and every component serves with the replicas wanted.
func (p *plannerOfMain) scales(replicas map[string]int64) *unstructured.Unstructured {
	GinkgoHelper()
	var dgd *unstructured.Unstructured
	p.until(fmt.Sprintf("the planner may scale, with %v", replicas), func() (err error) {
		if dgd, err = p.get(); err == nil {
			err = mayScale(dgd)
		}
		for component, want := range replicas {
			if got, _, _ := unstructured.NestedInt64(dgd.Object, "status", "components", component, "availableReplicas"); got != want {
				err = errors.Join(err, fmt.Errorf("%s has %d available replicas", component, got))
			}
		}
		return err
	})
	return dgd
}

// scale by the adapter of a component, or else by its index in the deployment.
func (p *plannerOfMain) scale(component string, replicas int) (by string, err error) {
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = p.of("nvidia.com", "v1beta1", "dynamographdeploymentscalingadapters").
		Patch(p.ctx, "llm-"+strings.ToLower(component), types.MergePatchType, body, metav1.PatchOptions{}, "scale")
	if !apierrors.IsNotFound(err) {
		return "adapter", err
	}
	dgd, err := p.get()
	if err != nil {
		return "", err
	}
	components, _, err := unstructured.NestedSlice(dgd.Object, "spec", "components")
	at := slices.IndexFunc(components, func(c any) bool { return c.(map[string]any)["name"] == component })
	body = fmt.Appendf(nil, `[{"op":"test","path":"/spec/components/%d/name","value":%q},{"op":"add","path":"/spec/components/%d/replicas","value":%d}]`, at, component, at, replicas)
	_, patchErr := p.of("nvidia.com", "v1beta1", "dynamographdeployments").Patch(p.ctx, "llm", types.JSONPatchType, body, metav1.PatchOptions{})
	return "deployment", errors.Join(err, patchErr)
}

// discovered are the DynamoWorkerMetadatas of a component: their names begin with one of its componentNames.
func (p *plannerOfMain) discovered(dgd *unstructured.Unstructured, component string) []string {
	GinkgoHelper()
	names, _, err := unstructured.NestedStringSlice(dgd.Object, "status", "components", component, "componentNames")
	Expect(err).NotTo(HaveOccurred())
	list, err := p.of("nvidia.com", "v1alpha1", "dynamoworkermetadatas").List(p.ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, item := range list.Items {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(item.GetName(), name+"-") }) {
			out = append(out, item.GetName())
		}
	}
	return out
}

// namespaceOf is the Dynamo namespace that the planner watches: that of the first worker in the order of the spec. The annotation is what it reads without.
func (p *plannerOfMain) namespaceOf(dgd *unstructured.Unstructured) (watched, annotated string) {
	GinkgoHelper()
	watched, _, err := unstructured.NestedString(dgd.Object, "status", "components", "Prefill", "runtimeNamespace")
	Expect(err).NotTo(HaveOccurred())
	return watched, p.namespace + "-llm-" + dgd.GetAnnotations()["nvidia.com/current-worker-hash-v2"]
}

var _ = Describe("The planner of Dynamo's main branch", func() {
	It("finds what it reads, scales both ways with its own rights, and follows an update", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		namespace := newNamespace(b.c)
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		Expect(yaml.UnmarshalStrict([]byte(plannedByMain), dgd)).To(Succeed())
		dgd.Namespace = namespace
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		p := b.plannerOfMain(namespace)
		b.until("the account has its rights", func() error { _, err := p.get(); return err })

		By("reading shapes")
		now := p.scales(map[string]int64{"Frontend": 1, "Prefill": 1, "Decode": 1})
		for component, want := range map[string][2]int64{"Prefill": {2, 4}, "Decode": {2, 3}, "Wide": {16, 16}, "Frontend": {0, 0}} {
			engine, replica, err := shape(now, component)
			Expect(err).NotTo(HaveOccurred(), component)
			Expect([2]int64{engine, replica}).To(Equal(want), component)
		}

		By("finding workers, pods and metrics")
		first, annotated := p.namespaceOf(now)
		Expect(annotated).To(Equal(first))
		for _, pod := range b.pods(namespace) {
			Expect(b.c.Create(ctx, &nvidiav1alpha1.DynamoWorkerMetadata{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name}, Spec: nvidiav1alpha1.DynamoWorkerMetadataSpec{Data: free(`{"endpoints":{}}`)},
			})).To(Succeed())
		}
		Expect(p.discovered(now, "Prefill")).To(Equal([]string{"llm-prefill-0"}))
		Expect(p.discovered(now, "Decode")).To(Equal([]string{"llm-decode-0"}))
		pods, err := p.of("", "v1", "pods").List(ctx, metav1.ListOptions{LabelSelector: "nvidia.com/dynamo-graph-deployment-name=llm,nvidia.com/dynamo-component=Decode"})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(1))
		service := &corev1.Service{}
		Expect(b.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "llm-frontend"}, service)).To(Succeed())
		Expect(service.Spec.Ports).To(ContainElement(HaveField("Port", BeEquivalentTo(8000))))

		By("scaling")
		Expect(p.scale("Decode", 2)).To(Equal("adapter"))
		Expect(p.scale("Prefill", 2)).To(Equal("deployment"))
		now = p.scales(map[string]int64{"Prefill": 2, "Decode": 2})
		watched, annotated := p.namespaceOf(now)
		Expect([]string{watched, annotated}).To(Equal([]string{first, first}), "the numbers of replicas are no part of a generation")

		By("following an update")
		path := `[{"op":"replace","path":"/spec/components/1/podTemplate/spec/containers/0/resources/limits","value":{"nvidia.com/gpu":"8"}}]`
		Expect(b.c.Patch(ctx, dgd, client.RawPatch(types.JSONPatchType, []byte(path)))).To(Succeed())
		waited := false
		b.until("the update has ended", func() error {
			now, err = p.get()
			Expect(err).NotTo(HaveOccurred())
			engine, replica, err := shape(now, "Prefill")
			Expect(err).To(Or(BeNil(), MatchError(errNoShape)))
			Expect(err != nil || engine == 8 && replica == 8).To(BeTrue(), "an old shape of %d and %d is served", engine, replica)
			why := mayScale(now)
			waited = waited || why != nil && strings.Contains(why.Error(), "the update is")
			switch watched, annotated := p.namespaceOf(now); {
			case why != nil:
				return why
			case watched == first || annotated != watched:
				return fmt.Errorf("the namespace is %s, that of the annotation %s", watched, annotated)
			}
			return nil
		})
		Expect(waited).To(BeTrue(), "the update has been reported")
		Expect(p.of("nvidia.com", "v1beta1", "dynamographdeployments").Delete(ctx, "llm", metav1.DeleteOptions{})).To(Satisfy(apierrors.IsForbidden))
	})
})

func free(raw string) nvidiav1alpha1.FreeObject {
	out := nvidiav1alpha1.FreeObject{}
	out.Raw = []byte(raw)
	return out
}
