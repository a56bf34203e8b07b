// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// promise replaces the promised pods of an observation with the pods as they will be after admission by Kueue. The Workloads of promised
// pods have quota, and wait only until places for their pods are reserved.
func (e *evaluation) promise(o *gang.Observation) promised {
	p, promises := promised{workloads: map[string]string{}, fingerprints: map[string]string{}}, e.options.Promises.Of(e.d.graph)
	if len(promises) == 0 {
		return p
	}
	for name, promise := range promises {
		p.fingerprints[name] = promise.Fingerprint(name, o.Pods)
	}
	o.Pods = slices.Clone(o.Pods)
	for i, pod := range o.Pods {
		name := quota.WorkloadOf(pod)
		admitted, is := promises[name].Admit(pod)
		if is {
			o.Pods[i] = admitted
		}
		// Pods without Trellis' gate are not planned and need no place. Pods with the gate of a third controller get no place for now.
		if _, promised := promises[name]; promised && render.GateClosed(pod) && quota.Held(pod) && pod.DeletionTimestamp == nil {
			p.workloads[topology.PodID(pod)] = name
		}
	}
	return p
}

// split returns the placed replicas that are released now. It adds to p.kept the replicas with a promised pod, and the replicas that are
// placed together with such a replica. No replica is released before the base gang.
func (p *promised) split(placed []placement.ReplicaResult) (released []placement.ReplicaResult) {
	if len(p.workloads) == 0 {
		return placed
	}
	base, heads := false, map[string]bool{}
	for i := range placed {
		if p.has(&placed[i]) {
			base = base || placed[i].Base
			heads[placed[i].Component] = heads[placed[i].Component] || placed[i].Head
		}
	}
	for i := range placed {
		one := &placed[i]
		if base || p.has(one) || one.Head && heads[one.Component] {
			p.kept = append(p.kept, *one)
		} else {
			released = append(released, *one)
		}
	}
	return released
}

func (p *promised) has(replica *placement.ReplicaResult) bool {
	return slices.ContainsFunc(replica.Pods, func(pod placement.PodResult) bool { return p.workloads[pod.ID] != "" })
}

// reservePromised holds the places of the kept replicas for HoldFor, and schedules another evaluation before the holds expire. It adds the
// Workloads to the result, with the reason if a Workload has no places.
func (e *evaluation) reservePromised(r *gang.Request) {
	p := &e.d.promised
	if len(p.workloads) == 0 {
		return
	}
	now, has := e.clock.Now(), map[string]bool{}
	for _, replica := range p.kept {
		for _, planned := range replica.Pods {
			pod := r.Gated[planned.ID]
			if pod == nil {
				continue
			}
			has[planned.ID] = true
			e.cluster.Forget(planned.ID)
			e.holds.add(e.cluster, client.ObjectKeyFromObject(pod), hold{
				node: planned.Node, shape: topology.ShapeOf(pod), graph: e.d.graph, until: now.Add(e.options.HoldFor), promised: true,
			})
		}
		who := "waits"
		if !p.has(&replica) {
			who = "replicas that are placed first wait"
		}
		e.d.result.Waiting = append(e.d.result.Waiting, gang.Waiting{
			Component: replica.Component, Ordinal: replica.Ordinal, Code: gang.CodeWaitingForAdmission,
			Message: fmt.Sprintf("its place in %s is reserved; %s for admission by %q", gang.OrCluster(replica.Domain), who, quota.Gate),
		})
	}
	if len(p.kept) > 0 {
		e.d.lookAt(now.Add(e.options.HoldFor / 2))
	}
	maps.Copy(e.d.result.Checked, p.checked(r, has, e.d.result.Waiting))
}

// withoutPlaces returns the Workloads whose pods need no place.
func (p *promised) withoutPlaces() map[string]gang.Checked {
	out := map[string]gang.Checked{}
	for name, fingerprint := range p.fingerprints {
		out[name] = gang.Checked{Fingerprint: fingerprint}
	}
	for _, name := range p.workloads {
		delete(out, name)
	}
	return out
}

// checked returns the Workloads for which the plan looked for places. For Workloads without a place, it adds the reason.
func (p *promised) checked(r *gang.Request, has map[string]bool, waiting []gang.Waiting) map[string]gang.Checked {
	out := map[string]gang.Checked{}
	for _, id := range slices.Sorted(maps.Keys(p.workloads)) {
		name := p.workloads[id]
		if has[id] {
			if _, known := out[name]; !known {
				out[name] = gang.Checked{Fingerprint: p.fingerprints[name]}
			}
			continue
		}
		out[name] = gang.Checked{Why: whyWaits(r.Gated[id], waiting), Fingerprint: p.fingerprints[name]}
	}
	return out
}

// whyWaits returns the reason for which the replica of a pod has no place.
func whyWaits(pod *corev1.Pod, waiting []gang.Waiting) string {
	if pod != nil {
		ordinal, _, _ := render.ReplicaOf(pod)
		for _, w := range waiting {
			if w.Ordinal == int(ordinal) && render.LabelValue(w.Component) == pod.Labels[render.LabelComponent] && w.Message != "" {
				return w.String()
			}
		}
	}
	return "it is not planned yet"
}
