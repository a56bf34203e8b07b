// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

var shared = &apiserver.Shared{Prepare: func(*rest.Config) error { return nil }}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// The limits of the namespaces that pods are made in; none in the first.
var limitRanges = []string{
	``,
	`limits: [{type: Container, default: {memory: 8Gi}, defaultRequest: {cpu: 2}}]`,
	`limits: [{type: Container, max: {memory: 4Gi, cpu: 8}, min: {cpu: 500m}}]`,
	`limits: [{type: Container, default: {cpu: 4}, maxLimitRequestRatio: {cpu: 4}}, {type: Pod, max: {memory: 6Gi}}]`,
}

const (
	ofGVisor = `{overhead: {podFixed: {memory: 1Gi, cpu: 100m}}, scheduling: {nodeSelector: {sandbox: gvisor},
		tolerations: [{key: sandbox, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}]}}`
)

// cluster makes the objects that admission looks at, and returns them with the namespaces.
func cluster(t *testing.T, c client.Client) (o Objects, namespaces []string) {
	t.Helper()
	create := func(object client.Object) {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range limitRanges {
		namespace := apiserver.Namespace(t, c)
		namespaces = append(namespaces, namespace)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
		if err := c.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		l := &corev1.LimitRange{Spec: *read[corev1.LimitRangeSpec](t, "{"+text+"}")}
		l.Namespace, l.Name = namespace, fmt.Sprintf("limits-%d", i)
		written := l.DeepCopy()
		create(l)
		o.LimitRanges = append(o.LimitRanges, written) // as a user writes it, without the API server's defaults
	}
	for _, text := range []string{ofGVisor, `{}`} {
		class := read[nodev1.RuntimeClass](t, text)
		class.GenerateName, class.Handler = "runtime-", "runsc"
		create(class)
		o.RuntimeClasses = append(o.RuntimeClasses, class)
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"}, Value: 7}
	create(class)
	o.PriorityClasses = append(o.PriorityClasses, class)
	return o, namespaces
}

func drawAmounts(t *rapid.T, what string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amounts := range map[corev1.ResourceName][]string{
		corev1.ResourceCPU: {"", "250m", "1", "3"}, corev1.ResourceMemory: {"", "1Gi", "3Gi", "5Gi"}, "example.com/gpu": {"", "", "1"},
	} {
		if amount := rapid.SampledFrom(amounts).Draw(t, fmt.Sprint(what, name)); amount != "" {
			list[name] = resource.MustParse(amount)
		}
	}
	return list
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "i"}
	c.Resources.Requests, c.Resources.Limits = drawAmounts(t, name+" requests "), drawAmounts(t, name+" limits ")
	if limit, limited := c.Resources.Limits["example.com/gpu"]; limited {
		c.Resources.Requests["example.com/gpu"] = limit
	} else {
		delete(c.Resources.Requests, "example.com/gpu")
	}
	for name, request := range c.Resources.Requests {
		if limit, limited := c.Resources.Limits[name]; limited && request.Cmp(limit) > 0 {
			c.Resources.Requests[name] = limit
		}
	}
	if rapid.Bool().Draw(t, name+" port") {
		c.Ports = []corev1.ContainerPort{{ContainerPort: int32(8000 + len(name)), Protocol: corev1.ProtocolTCP}}
	}
	return c
}

func drawPod(t *rapid.T, o *Objects, namespaces []string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: rapid.SampledFrom(namespaces).Draw(t, "namespace")}}
	spec := &pod.Spec
	spec.Containers = []corev1.Container{drawContainer(t, "a")}
	if rapid.Bool().Draw(t, "sidecar") {
		spec.Containers = append(spec.Containers, drawContainer(t, "bb"))
	}
	if rapid.IntRange(0, 3).Draw(t, "init") == 0 {
		spec.InitContainers = []corev1.Container{drawContainer(t, "ccc")}
	}
	spec.HostNetwork = rapid.Bool().Draw(t, "host network")
	if i := rapid.IntRange(-1, 2).Draw(t, "runtime"); i >= 0 {
		name := "no-such-runtime"
		if i < len(o.RuntimeClasses) {
			name = o.RuntimeClasses[i].Name
		}
		spec.RuntimeClassName = &name
	}
	spec.NodeSelector = rapid.SampledFrom([]map[string]string{nil, {"a": "b"}, {"sandbox": "gvisor"}, {"sandbox": "kata"}}).Draw(t, "selector")
	spec.Tolerations = rapid.SampledFrom([][]corev1.Toleration{
		nil, {{Operator: corev1.TolerationOpExists}}, {{Key: "sandbox", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoSchedule}},
		{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
	}).Draw(t, "tolerations")
	if rapid.IntRange(0, 3).Draw(t, "pod resources") == 0 {
		spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Gi")}}
	}
	spec.PriorityClassName = rapid.SampledFrom([]string{"", o.PriorityClasses[0].Name}).Draw(t, "class")
	return pod
}

// What is said of a new pod is what a real API server makes of it: the same shape and priority, or a refusal on both sides.
func TestAdmitLikeTheAPIServer(t *testing.T) {
	c, err := client.New(shared.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, namespaces := cluster(t, c)
	for _, namespace := range namespaces[1:] { // its plugin reads LimitRanges from a cache
		seen := func(ctx context.Context) (bool, error) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "look"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i"}}}}
			err := c.Create(ctx, pod, client.DryRunAll)
			return err != nil && apierrors.IsForbidden(err) || len(pod.Spec.Containers[0].Resources.Requests)+len(pod.Spec.Containers[0].Resources.Limits) > 0, nil
		}
		if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience.Limit(), true, seen); err != nil {
			t.Fatalf("the LimitRange of %s has no effect: %v", namespace, err)
		}
	}
	refusedBoth, stored := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		pod := drawPod(r, &o, namespaces)
		said, notes := o.Admit(pod)
		real := pod.DeepCopy()
		err := c.Create(t.Context(), real, client.DryRunAll)
		refuses := len(notes) > 0 // what is not known is refused by the API server as well
		if (err != nil) != refuses {
			r.Fatalf("the API server says %v, and here it is %q", err, notes)
		}
		if err != nil {
			if refusedBoth++; apierrors.IsInternalError(err) || strings.Contains(err.Error(), "serviceaccount") {
				r.Fatal(err)
			}
			return
		}
		stored++
		if diff := cmp.Diff(topology.ShapeOf(real).Key(), topology.ShapeOf(said).Key()); diff != "" {
			r.Fatalf("shape (-stored +said):\n%s", diff)
		}
		if diff := cmp.Diff(topology.PriorityOf(real), topology.PriorityOf(said)); diff != "" {
			r.Fatalf("priority (-stored +said):\n%s", diff)
		}
	})
	if refusedBoth == 0 || stored == 0 {
		t.Errorf("%d pods are refused and %d stored", refusedBoth, stored)
	}
}
