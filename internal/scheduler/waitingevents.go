// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// announcer publishes scheduling results, and announces waiting replicas. Only the loop uses it.
type announcer struct {
	results  *Results
	recorder events.EventRecorder
	// unannounced are the waiting replicas that had no pod when their result was announced.
	unannounced map[types.NamespacedName]map[gang.Key]bool
	// awaiting are the replicas that were announced as waiting for admission, with the pod on which they were announced.
	awaiting map[types.NamespacedName]map[gang.Key]types.UID
}

func newAnnouncer(results *Results, recorder events.EventRecorder) announcer {
	return announcer{
		results: results, recorder: recorder, unannounced: map[types.NamespacedName]map[gang.Key]bool{},
		awaiting: map[types.NamespacedName]map[gang.Key]types.UID{},
	}
}

// forget drops a graph that is gone.
func (a *announcer) forget(name types.NamespacedName) {
	a.results.drop(name)
	delete(a.unannounced, name)
	delete(a.awaiting, name)
}

// publish stores a result, and announces its waiting replicas that are not announced yet.
func (a *announcer) publish(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result) {
	name := client.ObjectKeyFromObject(dgd)
	if isNew := a.results.set(name, result); isNew || len(a.unannounced[name])+len(a.awaiting[name]) > 0 {
		a.announce(ctx, dgd, pods, result, isNew)
	}
}

// announce emits an event on the first pod of each waiting replica, where users look; the graph's status has the same message. If the
// result has not changed, announce covers only replicas that had no pod before, because they were refused before they were created. It
// announces a wait for admission only once per first pod, because the gate's owner reports the progress. The first pod can change: pods are
// recreated, and become visible in any order.
func (a *announcer) announce(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result, isNew bool,
) {
	name := client.ObjectKeyFromObject(dgd)
	first, late, later := gang.FirstPods(pods), a.unannounced[name], map[gang.Key]bool{}
	logged, awaiting, awaits := !isNew, a.awaiting[name], map[gang.Key]types.UID{}
	for _, w := range result.Waiting {
		if w.Code == gang.CodeCreating {
			continue
		}
		if !logged {
			logged = true
			logger(ctx, dgd).Info("waiting", "service", w.Component, "replica", w.Ordinal, "reason", w.Code, "message", w.Message, "replicas",
				len(result.Waiting))
		}
		key := gang.Key{Component: render.LabelValue(w.Component), Ordinal: w.Ordinal}
		told, known := awaiting[key]
		known = known && w.Code == gang.CodeWaitingForAdmission
		switch pod := first[key]; {
		case known && (pod == nil || pod.UID == told):
			awaits[key] = told
		case !isNew && !late[key] && !known:
		case pod == nil:
			later[key] = true
		default:
			a.recorder.Eventf(pod, dgd, eventType(w), w.Code, "Place", "%s", w.Message)
			if w.Code == gang.CodeWaitingForAdmission {
				awaits[key] = pod.UID
			}
		}
	}
	if a.awaiting[name] = awaits; len(awaits) == 0 {
		delete(a.awaiting, name)
	}
	if a.unannounced[name] = later; len(later) == 0 {
		delete(a.unannounced, name)
	}
}

// eventType returns the event type for a waiting replica. A wait for admission is not an error.
func eventType(w gang.Waiting) string {
	if w.Code == gang.CodeWaitingForAdmission {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

func (a *announcer) report(dgd *nvidiav1beta1.DynamoGraphDeployment, list []event) {
	for _, e := range list {
		a.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, e.reason, "Place", "%s", e.note)
	}
}
