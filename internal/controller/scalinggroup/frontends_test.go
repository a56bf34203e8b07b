// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/frontend"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// frontendAt is a frontend whose pod is Ready and has the address of a server.
func frontendAt(t *testing.T, address string) []client.Object {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	sg := group(1, 1)
	sg.Name, sg.UID, sg.Spec.Service = "g-frontend", "frontend-uid", "frontend"
	template := &sg.Spec.Roles[0].Template
	template.Labels = map[string]string{render.LabelComponentType: "frontend"}
	template.Spec.Containers = []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}}}}
	pod := podsOf(sg, 0, running)[0]
	pod.UID, pod.Status.PodIP = "frontend-pod-uid", at.Hostname()
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	return []client.Object{sg, pod}
}

// TestFrontendsAreAsked: where the deployment has frontends asked, a new worker counts when all that list instances list its own, and the update reports which
// frontend does not.
func TestFrontendsAreAsked(t *testing.T) {
	listing := func(ids ...string) string {
		var instances []string
		for _, id := range ids {
			instances = append(instances, fmt.Sprintf(`{"namespace":"n","instance_id":%s}`, id))
		}
		return fmt.Sprintf(`{"instances":[%s]}`, strings.Join(instances, ","))
	}
	const ready = "pod g-worker-1 is Ready since 2026-05-01T12:00:00Z and frontend pod g-frontend-0 "
	unready := func(objects []client.Object) { objects[1].(*corev1.Pod).Status.Conditions = nil }
	cases := map[string]struct {
		ask    string
		status int
		body   string
		change func([]client.Object)
		why    string
	}{
		"off":                           {"", 200, listing("1"), nil, ""},
		"switched off":                  {"false", 200, listing("1"), nil, ""},
		"it lists the old one only":     {"true", 200, listing("1"), nil, ready + "does not list it"},
		"it lists both":                 {"true", 200, listing("1", "2"), nil, ""},
		"it lists the id of another":    {"true", 200, `{"instances":[{"namespace":"other","instance_id":2}]}`, nil, ready + "does not list it"},
		"it lists nothing":              {"true", 200, `{"status":"healthy"}`, nil, ""},
		"it is not ready":               {"true", 503, listing("1", "2"), nil, ready + "answers 503"},
		"no frontend pod is Ready":      {"true", 200, listing("1"), unready, ""},
		"another component's pod there": {"true", 200, listing("1"), func(o []client.Object) { o[0].(*trellisv1alpha1.ScalingGroup).Spec.Roles[0].Template.Labels = nil }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/health" || r.Method != http.MethodGet {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			front := frontendAt(t, server.URL)
			if c.change != nil {
				c.change(front)
			}
			r, sg, pods := updating(t, c.ask, front...)
			waits, states, again := accepted(t, r, sg, pods)
			want := []rollout.State{rollout.Available, rollout.Available}
			if c.why != "" {
				want[1] = rollout.Starting
			}
			if diff := cmp.Diff(want, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if waits != c.why || (again > 0) != (c.why != "") {
				t.Errorf("got %q, again in %s; want %q", waits, again, c.why)
			}
		})
	}
}

// TestPublishedIsReadOnce: while a frontend does not list a new worker, what that one published is read once, and once more when it has published again.
func TestPublishedIsReadOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"instances":[{"namespace":"n","instance_id":1},{"namespace":"n","instance_id":3}]}`))
	}))
	t.Cleanup(server.Close)
	r, sg, pods := updating(t, "true", frontendAt(t, server.URL)...)
	live := &readsOf{Reader: r.Live}
	r.Live = live
	look := func(why string, reads int) {
		t.Helper()
		for range 5 {
			if got, _, _ := accepted(t, r, sg, pods); !strings.HasSuffix(got, why) || got == "" && why != "" {
				t.Errorf("got %q, want %q", got, why)
			}
		}
		if live.n != reads {
			t.Errorf("%d reads of what is published, want %d", live.n, reads)
		}
	}
	look("does not list it", 1)
	metadata := &nvidiav1alpha1.DynamoWorkerMetadata{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: sg.Namespace, Name: pods[1].Name}, metadata); err != nil {
		t.Fatal(err)
	}
	publish := func(data string) {
		metadata.Spec.Data.Raw = []byte(data)
		if err := r.Client.Update(t.Context(), metadata); err != nil {
			t.Fatal(err)
		}
	}
	publish(`{"model_cards":null,"endpoints":null}`)
	look("has published no instance that a frontend could list", 2)
	publish(`{"endpoints":{"a":{"namespace":"n","instance_id":3}}}`)
	look("", 3)
	for i := range pods {
		pods[i].Labels[render.LabelRevision] = sg.Spec.Revision
	}
	sg.Status.Conditions = nil
	look("", 3)
	if _, known := r.published.Of(client.ObjectKeyFromObject(sg), metadata.UID, metadata.ResourceVersion); known {
		t.Error("what was published is remembered after the update")
	}
}

// readsOf counts the reads of DynamoWorkerMetadatas.
type readsOf struct {
	client.Reader
	n int
}

func (r *readsOf) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*nvidiav1alpha1.DynamoWorkerMetadata); ok {
		r.n++
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// TestFrontendsThatDoNotAnswer: the worker does not count until there is an answer, and a reconcile does not wait for it.
func TestFrontendsThatDoNotAnswer(t *testing.T) {
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		_, _ = w.Write([]byte(`{"instances":[{"namespace":"n","instance_id":2}]}`))
	}))
	t.Cleanup(server.Close)
	r, sg, pods := updating(t, "true", frontendAt(t, server.URL)...)
	look := func() (string, time.Duration) {
		replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
		again, err := r.lookForMetadata(t.Context(), sg, replicas)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(notAvailable(replicas), ", "), again
	}
	if got, again := look(); !strings.HasSuffix(got, "frontend pod g-frontend-0 has not answered yet") || again != frontend.Again {
		t.Errorf("got %q, again in %s", got, again)
	}
	close(answer)
	if got, _, again := accepted(t, r, sg, pods); got != "" || again != 0 {
		t.Errorf("got %q, again in %s", got, again)
	}
	server.Close()
	r.frontends.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if got, _, _ := accepted(t, r, sg, pods); !strings.Contains(got, "frontend pod g-frontend-0 does not answer: dial tcp") {
		t.Errorf("got %q", got)
	}
}

// updating is a group whose old replica and new one are Ready and have published their metadata.
func updating(t *testing.T, ask string, front ...client.Object) (*Reconciler, *trellisv1alpha1.ScalingGroup, []*corev1.Pod) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, trellisv1alpha1.AddToScheme, nvidiav1alpha1.AddToScheme, nvidiav1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	sg := workers(2, 1)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: sg.Namespace, Name: sg.Spec.Graph, UID: "dgd-uid"}}
	if ask != "" {
		dgd.Annotations = map[string]string{rollout.AnnotationAskFrontends: ask}
	}
	pods := append(podsOf(sg, 0, old(running)), podsOf(sg, 1, changed(running))...)
	objects := append([]client.Object{dgd, sg}, front...)
	for i, pod := range pods {
		pod.UID += "x"
		metadata := &nvidiav1alpha1.DynamoWorkerMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID + "-metadata", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		}}
		metadata.Spec.Data.Raw = fmt.Appendf(nil, `{"model_cards":{"a":{"namespace":"n","instance_id":%d}}}`, i+1)
		objects = append(objects, metadata)
	}
	for _, o := range objects {
		if group, ok := o.(*trellisv1alpha1.ScalingGroup); ok {
			group.OwnerReferences = []metav1.OwnerReference{{APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: dgd.Name, UID: dgd.UID, Controller: ptr.To(true)}}
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, indexPodsByGroup, func(o client.Object) []string {
			name, _ := groupNamedBy(o.(*corev1.Pod))
			return []string{name}
		}).
		WithIndex(&trellisv1alpha1.ScalingGroup{}, scheduler.IndexGroupsByGraph, func(o client.Object) []string { return []string{string(o.GetOwnerReferences()[0].UID)} }).
		WithIndex(&nvidiav1alpha1.DynamoWorkerMetadata{}, indexMetadataByPod, func(o client.Object) []string { return []string{o.GetOwnerReferences()[0].Name} }).
		Build()
	return &Reconciler{Client: c, Live: c}, sg, pods
}

// accepted looks until all frontends have answered.
func accepted(t *testing.T, r *Reconciler, sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) (why string, states []rollout.State, again time.Duration) {
	t.Helper()
	for {
		replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
		var err error
		if again, err = r.lookForMetadata(t.Context(), sg, replicas); err != nil {
			t.Fatal(err)
		}
		if why = strings.Join(notAvailable(replicas), ", "); strings.Contains(why, "has not answered yet") {
			select {
			case <-t.Context().Done():
				t.Fatal(why)
			case <-time.After(time.Millisecond):
				continue
			}
		}
		for _, replica := range summaries(sg, replicas) {
			states = append(states, replica.State)
		}
		return why, states, again
	}
}
