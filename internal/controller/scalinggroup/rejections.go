// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	// maxHosts is the maximum number of rejecting hosts that are stored for one replica. The hosts with the most rejections are kept.
	maxHosts = 4
	// maxRejection bounds the stored reason of a rejection, in bytes.
	maxRejection = 64
)

// rejected returns, by host, the reason why the kubelet rejected pods of the replica. A rejected pod ended before any of its containers
// ran. The kubelet had no device, no aligned resources or no room for the pod (UnexpectedAdmissionError, TopologyAffinityError, OutOfcpu,
// ...), even if the Node object shows free resources.
func (r *replica) rejected() map[string]string {
	hosts := map[string]string{}
	for _, pod := range r.lost {
		if pod.DeletionTimestamp == nil && rejected(pod) {
			hosts[pod.Spec.NodeName] = pod.Status.Reason
		}
	}
	return hosts
}

func rejected(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason == "" || pod.Spec.NodeName == "" || displaced(pod) {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool {
			return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
		})
}

// withRejections returns the known rejections, plus one rejection by each of the hosts.
func withRejections(known []trellisv1alpha1.RejectingHost, hosts map[string]string) []trellisv1alpha1.RejectingHost {
	if len(hosts) == 0 {
		return known
	}
	out := slices.Clone(known)
	for name, reason := range hosts {
		at := slices.IndexFunc(out, func(h trellisv1alpha1.RejectingHost) bool { return h.Name == name })
		if at < 0 {
			at = len(out)
			out = append(out, trellisv1alpha1.RejectingHost{Name: name})
		}
		out[at].Rejections++
		out[at].Reason = limit.Middle(reason, maxRejection)
	}
	slices.SortFunc(out, func(a, b trellisv1alpha1.RejectingHost) int {
		return cmp.Or(cmp.Compare(b.Rejections, a.Rejections), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), maxHosts)]
}

// lastHost returns a text about the hosts that placement considers last for a failed replica, because their kubelets repeatedly rejected
// the replica's pods. It names the host with the most rejections, and counts the others. lastHost returns "" if there are no such hosts, or
// if Trellis does not choose the replica's hosts.
func lastHost(sg *trellisv1alpha1.ScalingGroup, f trellisv1alpha1.FailedReplica) string {
	last := gang.LastHosts(f)
	if len(last) == 0 || !render.Gated(sg) {
		return ""
	}
	text := fmt.Sprintf("; node %s, which has rejected its pods %d times,", last[0], f.Hosts[0].Rejections)
	if len(last) > 1 {
		return text + fmt.Sprintf(" and %d more come last for it", len(last)-1)
	}
	return text + " comes last for it"
}

func onNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return ""
	}
	return " on node " + pod.Spec.NodeName
}
