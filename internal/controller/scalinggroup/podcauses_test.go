// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// told is an event of a kubelet, some seconds after noon.
func told(seconds int, kind, reason, message string) corev1.Event {
	return corev1.Event{
		Type: kind, Reason: reason, Message: message, Source: corev1.EventSource{Component: "kubelet"},
		LastTimestamp: metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second)),
	}
}

func TestCauseInEvents(t *testing.T) {
	const warning, normal = corev1.EventTypeWarning, corev1.EventTypeNormal
	mount := told(3, warning, "FailedMount", `MountVolume.SetUp failed for volume "s" : secret "missing" not found`)
	attach := told(4, warning, "FailedAttachVolume", "Multi-Attach error")
	attach.Source, attach.ReportingController = corev1.EventSource{}, "attachdetach-controller"
	series := told(1, warning, "FailedCreatePodSandBox", "no network\n")
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon.Add(time.Minute))}
	scheduler := told(9, warning, "FailedScheduling", "0/1 nodes are available")
	scheduler.Source.Component = "default-scheduler"
	probe := told(5, warning, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
	probe.InvolvedObject.FieldPath = "spec.containers{main}"
	for name, tc := range map[string]struct {
		events  []corev1.Event
		running bool
		want    string
	}{
		"none":                        {nil, false, ""},
		"a missing Secret":            {[]corev1.Event{mount}, false, `FailedMount: MountVolume.SetUp failed for volume "s" : secret "missing" not found`},
		"the last one":                {[]corev1.Event{attach, mount}, false, "FailedAttachVolume: Multi-Attach error"},
		"a series":                    {[]corev1.Event{series, attach}, false, "FailedCreatePodSandBox: no network"},
		"the kubelet has got further": {[]corev1.Event{mount, told(4, normal, "Pulled", "")}, false, ""},
		"in the same second":          {[]corev1.Event{mount, told(3, normal, "Pulling", "")}, false, `FailedMount: MountVolume.SetUp failed for volume "s" : secret "missing" not found`},
		"another component":           {[]corev1.Event{mount, scheduler}, false, `FailedMount: MountVolume.SetUp failed for volume "s" : secret "missing" not found`},
		"a probe": {[]corev1.Event{mount, probe, told(9, normal, "Started", "")}, true,
			"container main: Readiness probe failed: HTTP probe failed with statuscode: 503"},
		"a probe, before a restart": {[]corev1.Event{probe}, false, ""},
		"a mount, before it ran":    {[]corev1.Event{mount}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, causeOf(lastIn(tc.events, tc.running), tc.running).text); diff != "" {
				t.Errorf("cause (-want +got):\n%s", diff)
			}
		})
	}
}

// listener is a reconciler whose API server has the same events of every pod, on a clock that the test moves.
type listener struct {
	*Reconciler
	reads int
	now   time.Time
	fails error
	// endless: each page of events is followed by another.
	endless bool
}

func listensTo(events ...corev1.Event) *listener {
	l := &listener{Reconciler: &Reconciler{}, now: noon}
	down := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "down"}}
	down.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	l.Client = fake.NewClientBuilder().WithObjects(down, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}).Build()
	l.Live = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			l.reads++
			read := &client.ListOptions{}
			read.ApplyOptions(options)
			if want := "involvedObject.uid="; read.FieldSelector == nil || len(read.FieldSelector.String()) <= len(want) {
				return errors.New("all events are read")
			}
			if read.Limit == 0 {
				return errors.New("the list has no limit")
			}
			if l.fails != nil {
				return l.fails
			}
			page := list.(*corev1.EventList)
			if page.Items = events; l.endless {
				page.Continue = "more"
			}
			return nil
		},
	})
	l.refusals.now = func() time.Time { return l.now }
	return l
}

// pending is a pod on a node since noon.
func pending(node string) state {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.UID, pod.CreationTimestamp = types.UID(pod.Name), metav1.NewTime(noon)
		pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions = node, corev1.PodPending, nil
	}
}

// serving is a pod on a node whose containers run since noon.
func serving(node string) state {
	return func(pod *corev1.Pod) {
		pending(node)(pod)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
}

// says is the condition after so long, and the time until the events are read again.
func (l *listener) says(at time.Duration, states ...state) (string, time.Duration) {
	l.now = noon.Add(at)
	sg := group(1, int32(len(states)))
	replicas := replicasOf(sg, podsOf(sg, 0, states...), func(*corev1.Pod) bool { return false })
	p := &pass{Reconciler: l.Reconciler, observed: observed{sg: sg, replicas: replicas}}
	p.lookForCauses(context.Background())
	if c := healthCondition(sg, replicas, backOff{now: l.now}); c != nil {
		return c.Reason + " " + c.Message, p.reads
	}
	return "", p.reads
}

// The kubelet tells of a Secret that is missing, or of a probe that fails, in events only. They are read while a pod is not Ready, and ever less
// often.
func TestEventsOfPodsThatAreNotReady(t *testing.T) {
	mount := told(1, corev1.EventTypeWarning, "FailedMount", `secret "missing" not found`)
	probe := told(1, corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: HTTP 503")
	for name, tc := range map[string]struct {
		event corev1.Event
		pod   state
		at    time.Duration
		want  string
		again time.Duration
		reads int
	}{
		"it has time":              {mount, pending("node"), 9 * time.Second, "", time.Second, 0},
		"it has had time":          {mount, pending("node"), 10 * time.Second, `PodsNotStarting pod g-worker-0: FailedMount: secret "missing" not found`, 10 * time.Second, 1},
		"for long":                 {mount, pending("node"), time.Hour, `PodsNotStarting pod g-worker-0: FailedMount: secret "missing" not found`, time.Minute, 1},
		"its status says it":       {mount, waits("InvalidImageName", "a"), time.Hour, "PodsNotStarting pod g-worker-0: container main: InvalidImageName: a", 0, 0},
		"it is not bound":          {mount, pending(""), time.Hour, "", 0, 0},
		"it is Ready":              {mount, running, time.Hour, "", 0, 0},
		"a server loads":           {probe, serving("node"), 59 * time.Second, "", time.Second, 0},
		"a probe that still fails": {probe, serving("node"), time.Minute, "PodsNotReady pod g-worker-0: Readiness probe failed: HTTP 503", time.Minute, 1},
		"its node is not ready":    {probe, serving("down"), time.Second, "PodsNotReady pod g-worker-0: its node down is not ready", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := listensTo(tc.event)
			got, again := l.says(tc.at, tc.pod)
			if got != tc.want || again != tc.again || l.reads != tc.reads {
				t.Errorf("%q, again after %s, %d reads; want %q, %s, %d", got, again, l.reads, tc.want, tc.again, tc.reads)
			}
		})
	}
}

func TestReadsOfEventsAreFew(t *testing.T) {
	l := listensTo(told(1, corev1.EventTypeWarning, "FailedMount", "no"))
	for at := range 10 * 60 { // it is reconciled every second
		if got, _ := l.says(time.Duration(at)*time.Second, pending("node")); got == "" && at >= 10 {
			t.Fatalf("nothing is said after %d seconds", at)
		}
	}
	if l.reads < 10 || l.reads > 14 {
		t.Errorf("%d reads in 10 minutes", l.reads)
	}
	l.reads = 0
	var many []state
	for range 100 {
		many = append(many, pending("node"))
	}
	l.causes = podCauses{}
	if _, again := l.says(time.Hour, many...); l.reads != eventBurst || again != time.Second {
		t.Errorf("%d reads at once, and again after %s", l.reads, again)
	}
}

// A right that is missing hides causes, and nothing else.
func TestEventsThatCannotBeRead(t *testing.T) {
	l := listensTo(told(1, corev1.EventTypeWarning, "FailedMount", "no"))
	l.fails = errors.New("forbidden")
	for range 3 {
		if _, again := l.says(10*time.Second, pending("node")); l.reads != 1 || again != 10*time.Second {
			t.Errorf("%d reads, again after %s", l.reads, again)
		}
	}
}

// TestCauseSurvivesAFailedRead: the last known cause is reported until events can be read again.
func TestCauseSurvivesAFailedRead(t *testing.T) {
	l := listensTo(told(1, corev1.EventTypeWarning, "FailedMount", "no"))
	want, _ := l.says(10*time.Second, pending("node"))
	l.fails = errors.New("the API server is not available")
	if got, _ := l.says(time.Minute, pending("node")); got != want || want == "" || l.reads != 2 {
		t.Errorf("%q after a failed read, %q before; %d reads", got, want, l.reads)
	}
}

// TestEventsOfAPodAreBounded: anyone who may create events of a pod can create any number of them.
func TestEventsOfAPodAreBounded(t *testing.T) {
	l := listensTo(told(1, corev1.EventTypeWarning, "FailedMount", "no"))
	l.endless = true
	if got, _ := l.says(10*time.Second, pending("node")); got == "" || l.reads > 16 {
		t.Errorf("%q after %d pages", got, l.reads)
	}
}

// A kubelet that is restarted while its disk is full, or after its node was relabelled, ends running pods, and reports only the exit codes of
// their containers. Its event says why.
func TestEventsOfPodsThatTheirNodeEnded(t *testing.T) {
	evicted := told(1, corev1.EventTypeWarning, "Evicted", "The node had condition: [DiskPressure]. ")
	mount := told(2, corev1.EventTypeWarning, "FailedMount", "not registered")
	killing := told(3, corev1.EventTypeNormal, "Killing", "Stopping container main")
	ended := func(phase corev1.PodPhase, reason string) state {
		return func(pod *corev1.Pod) {
			serving("node")(pod)
			pod.Status.Phase, pod.Status.Reason = phase, reason
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
		}
	}
	const failed = "ReplicaFailed replica 0 failed, it is recreated at 2026-01-02T03:04:06Z: pod g-worker-0 on node node: "
	for name, tc := range map[string]struct {
		events []corev1.Event
		pod    state
		want   string
		reads  int
	}{
		"ended in peace":      {[]corev1.Event{evicted, mount, killing}, ended(corev1.PodSucceeded, ""), "Evicted: The node had condition: [DiskPressure].", 1},
		"ended with an error": {[]corev1.Event{evicted, mount, killing}, ended(corev1.PodFailed, ""), "Evicted: The node had condition: [DiskPressure].", 1},
		"by no kubelet":       {[]corev1.Event{mount, killing}, ended(corev1.PodSucceeded, ""), "all its containers have completed", 1},
		"with a reason":       {[]corev1.Event{evicted}, ended(corev1.PodFailed, "NodeAffinity"), "NodeAffinity", 0},
		"no device is left": {
			[]corev1.Event{told(1, corev1.EventTypeWarning, "OutOfnvidia.com/gpu", "none")}, ended(corev1.PodFailed, ""), "OutOfnvidia.com/gpu: none", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, sg := listensTo(tc.events...), group(1, 1)
			for range 2 { // the failure is stored before its pods are deleted, and not looked at again
				replicas := replicasOf(sg, podsOf(sg, 0, tc.pod), func(*corev1.Pod) bool { return false })
				(&pass{Reconciler: l.Reconciler, observed: observed{sg: sg, replicas: replicas}}).lookForCauses(t.Context())
				b := backOffOf(sg, replicas, l.now)
				b.into(sg, replicas, &sg.Status)
			}
			if c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionPodsHealthy); c == nil || c.Reason+" "+c.Message != failed+tc.want {
				t.Errorf("condition %+v, want %s%s", c, failed, tc.want)
			}
			if l.reads != tc.reads {
				t.Errorf("%d reads of events, want %d", l.reads, tc.reads)
			}
		})
	}
}
