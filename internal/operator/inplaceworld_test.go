// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
)

// podWrites follows what an operator writes of pods, and changes or refuses it as the API server may.
type podWrites struct {
	mu sync.Mutex
	// log has "+name" where a create begins, "=name" where it has ended well, "!name" where not, "~name" for a patch, "-name" for a
	// deletion, and "?name" for a GraphPlacement that was not written.
	log []string
	// refuse is the name of a pod whose first create is refused, after another pod was created.
	refuse  string
	refused sync.Once
	// admit changes a pod that is created, or refuses it. trial: nothing is to be stored.
	admit func(pod *corev1.Pod, trial bool) error
	// stored is called with each pod that was created, before its operator has the answer, which is an error where it returns one.
	stored func(pod *corev1.Pod) error
	// patches is called before a pod is patched, and patched with each pod that was, before its operator has the answer.
	patches func()
	patched func(*corev1.Pod)
	// ends is called before a pod is deleted, and refuses that where it returns an error.
	ends func(pod client.Object) error
}

func (p *podWrites) note(kind string, o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, kind+o.GetName())
}

// forget forgets what was noted.
func (p *podWrites) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = nil
}

// all are the notes of some kinds, in order.
func (p *podWrites) all(kinds string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.log {
		if strings.ContainsRune(kinds, rune(one[0])) {
			out = append(out, one)
		}
	}
	return out
}

func (p *podWrites) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(config, o)
	return podWriter{c, p}, err
}

type podWriter struct {
	client.Client
	*podWrites
}

func (w podWriter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	pod, is := o.(*corev1.Pod)
	if !is {
		return w.noteRecord(o, w.Client.Create(ctx, o, opts...))
	}
	trial := len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0
	if !trial {
		w.note("+", pod)
	}
	var err error
	if w.admit != nil {
		err = w.admit(pod, trial)
	}
	if err == nil && !trial && pod.Name == w.refuse {
		w.refused.Do(func() {
			created := func(context.Context) (bool, error) { return len(w.all("=")) > 0, nil }
			_ = wait.PollUntilContextCancel(ctx, betweenLooks, true, created)
			err = forbidden(pod)
		})
	}
	if err == nil {
		err = w.Client.Create(ctx, pod, opts...)
	}
	if err == nil && !trial && w.stored != nil {
		err = w.stored(pod)
	}
	if !trial {
		w.note(map[bool]string{true: "=", false: "!"}[err == nil], o)
	}
	return err
}

func (w podWriter) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	pod, is := o.(*corev1.Pod)
	if is {
		w.note("~", o)
		if w.patches != nil {
			w.patches()
		}
	}
	err := w.noteRecord(o, w.Client.Patch(ctx, o, patch, opts...))
	if err == nil && is && w.patched != nil {
		w.patched(pod)
	}
	return err
}

// noteRecord notes that a record was not written.
func (w podWriter) noteRecord(o client.Object, err error) error {
	if _, is := o.(*trellisv1alpha1.GraphPlacement); is && err != nil {
		w.note("?", o)
	}
	return err
}

func (w podWriter) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if _, is := o.(*corev1.Pod); is {
		w.note("-", o)
		if w.ends != nil {
			if err := w.ends(o); err != nil {
				return err
			}
		}
	}
	return w.Client.Delete(ctx, o, opts...)
}

// inPlaceWorld is an API server with an operator that creates gangs in place, and two racks, a and b, with two hosts each.
type inPlaceWorld struct {
	*bare
	*podWrites
	namespace string
}

// newInPlaceWorld has each rack in a zone of its own.
func newInPlaceWorld(ctx context.Context, admit func(pod *corev1.Pod, trial bool) error) *inPlaceWorld {
	GinkgoHelper()
	return newInPlaceWorldIn(ctx, admit, "a", "b")
}

// newInPlaceWorldIn is the same with the zones of the two racks.
func newInPlaceWorldIn(ctx context.Context, admit func(pod *corev1.Pod, trial bool) error, ofA, ofB string) *inPlaceWorld {
	GinkgoHelper()
	return newInPlaceWorldOn(ctx, shared, admit, ofA, ofB)
}

// newInPlaceWorldOn is the same on another API server.
func newInPlaceWorldOn(ctx context.Context, config *rest.Config, admit func(pod *corev1.Pod, trial bool) error, ofA, ofB string) *inPlaceWorld {
	GinkgoHelper()
	p := &inPlaceWorld{podWrites: &podWrites{admit: admit}}
	p.bare = newBareOn(ctx, config, p.podWrites.newClient, nil)
	p.namespace = newNamespace(p.c)
	a := &autoscaler{bare: p.bare, namespace: p.namespace}
	a.install("", &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "rack", Key: "example.com/rack"}}}})
	for _, host := range []string{"0", "1"} {
		a.adds("a"+host, ofA, "a")
		a.adds("b"+host, ofB, "b")
	}
	p.until("the operator has seen the hosts", func() error {
		nodes, seen := &corev1.NodeList{}, &grovev1alpha1.ClusterTopology{}
		Expect(p.c.List(ctx, nodes)).To(Succeed())
		if err := p.c.Get(ctx, client.ObjectKey{Name: p.namespace}, seen); err != nil || int(seen.Status.Nodes) < len(nodes.Items) {
			return fmt.Errorf("%d of %d hosts: %w", seen.Status.Nodes, len(nodes.Items), err)
		}
		return nil
	})
	return p
}

// graph is a deployment in the topology of the spec. With graphDomain it is packed as a whole.
func (p *inPlaceWorld) graph(graphDomain string, components graphs.Components) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := deployment(p.namespace, components)
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: p.namespace, PackDomain: graphDomain}
	return dgd
}

// three components of one pod of 8 GPUs each, and one of two, that begin together in a zone.
func three() graphs.Components {
	return graphs.Components{"A": graphs.Worker(1, 1, 2, ""), "B": graphs.Worker(1, 2, 2, ""), "C": graphs.Worker(1, 1, 2, "")}
}

// open waits until so many pods exist, none of them has the gate, all of each replica are in one rack, and all creates are answered. It
// returns how many pods were created in place.
func (p *inPlaceWorld) open(pods int) (created int) {
	GinkgoHelper()
	p.until(fmt.Sprintf("%d pods are open, each replica in one rack", pods), func() error {
		created = 0
		racks := map[string]string{}
		all := p.pods(p.namespace)
		for i := range all {
			pod := &all[i]
			if render.GateClosed(pod) || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is gated, or ends", pod.Name)
			}
			of := pod.Labels[render.LabelScalingGroup] + "-" + pod.Labels[render.LabelReplica]
			rack := pod.Spec.NodeSelector["example.com/rack"]
			if before, known := racks[of]; rack == "" || known && before != rack {
				return fmt.Errorf("replica %s is in the racks %q and %q", of, before, rack)
			}
			racks[of] = rack
			if p.inPlace(pod) {
				created++
			}
		}
		if len(all) != pods {
			return fmt.Errorf("there are %d pods", len(all))
		}
		if begun, answered := p.all("+"), p.all("=!"); len(answered) < len(begun) { // a pod is seen before its create is answered
			return fmt.Errorf("of the creates %v only %v are answered", begun, answered)
		}
		return nil
	})
	return created
}

// withoutNodes is the API server of an operator whose cache does not show some nodes.
func withoutNodes(names ...string) *rest.Config {
	config := rest.CopyConfig(shared)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes" {
				r = r.Clone(r.Context())
				query := r.URL.Query()
				query.Set("fieldSelector", "metadata.name!="+strings.Join(names, ",metadata.name!="))
				r.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

// deleted is nil when pods were deleted, and none is there that was created in place.
func (p *inPlaceWorld) deleted() error {
	if len(p.all("-")) == 0 {
		return errors.New("none was deleted")
	}
	all := p.pods(p.namespace)
	for i := range all {
		if p.inPlace(&all[i]) {
			return fmt.Errorf("pod %s is there", all[i].Name)
		}
	}
	return nil
}

// inPlace reports whether a pod was created without the gate: it is open, and was not patched since its create.
func (p *inPlaceWorld) inPlace(pod *corev1.Pod) bool {
	patched := false
	for _, one := range p.all("+~") {
		switch one {
		case "+" + pod.Name:
			patched = false
		case "~" + pod.Name:
			patched = true
		}
	}
	return !render.GateClosed(pod) && !patched
}

// ofAttempt is nil when both pods are open, of an attempt or a later one, and others than a former pod.
func (p *inPlaceWorld) ofAttempt(attempt int32, former types.UID) error {
	pods := p.pods(p.namespace)
	for i := range pods {
		if of := render.AttemptOf(&pods[i]); of < attempt || pods[i].UID == former || render.GateClosed(&pods[i]) {
			return fmt.Errorf("pod %s is of attempt %d", pods[i].Name, of)
		}
	}
	if len(pods) != 2 {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	return nil
}

// dying is an operator all of whose writes fail from the first pod on, except for the create of one pod. first is the name of that.
type dying struct {
	*podWrites
	first string
	// created is closed when that pod is created: the other creates fail after it.
	created chan struct{}
	mu      sync.Mutex
	died    bool
}

func (d *dying) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.died
}

func (d *dying) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(config, o)
	return dyingWriter{podWriter{c, d.podWrites}, d}, err
}

// diesAfter runs an operator that dies after it has created one pod of a gang, and returns that pod. The next one to start does not die.
func (p *inPlaceWorld) diesAfter(first string) *corev1.Pod {
	GinkgoHelper()
	d := &dying{podWrites: p.podWrites, first: first, created: make(chan struct{})}
	p.bare.newClient = d.newClient
	p.start()
	p.until("the first pod is created", func() error {
		if len(p.all("=")) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	p.until("the operator has died", func() error {
		if !d.dead() {
			return errors.New("it lives")
		}
		return nil
	})
	p.stop()
	p.bare.newClient = p.podWrites.newClient
	Expect(p.pods(p.namespace)).To(HaveLen(1))
	return &p.pods(p.namespace)[0]
}

type dyingWriter struct {
	podWriter
	of *dying
}

func (w dyingWriter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	trial := len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0
	_, is := o.(*corev1.Pod)
	if is && !trial && !w.of.dead() {
		if o.GetName() == w.of.first {
			defer close(w.of.created)
			return w.podWriter.Create(ctx, o, opts...)
		}
		<-w.of.created
		w.of.mu.Lock()
		w.of.died = true
		w.of.mu.Unlock()
	}
	if w.of.dead() {
		return errors.New("the operator has died")
	}
	return w.podWriter.Create(ctx, o, opts...)
}

func (w dyingWriter) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if w.of.dead() {
		return errors.New("the operator has died")
	}
	return w.podWriter.Patch(ctx, o, patch, opts...)
}

func (w dyingWriter) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if w.of.dead() {
		return errors.New("the operator has died")
	}
	return w.podWriter.Delete(ctx, o, opts...)
}

func forbidden(pod *corev1.Pod) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New("exceeded quota"))
}

// hasQuota gives the namespace a quota that is far from used up.
func (p *inPlaceWorld) hasQuota(name corev1.ResourceName) {
	GinkgoHelper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{name: resource.MustParse("100")},
	}}
	quotas.Enforce(p.ctx, p.c, quota)
	DeferCleanup(func(ctx SpecContext) error { return p.c.Delete(ctx, quota) })
}
