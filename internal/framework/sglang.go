// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// launchSGLang starts the same command on all nodes, because SGLang itself divides the model by the number of nodes.
func launchSGLang(replica Replica, leader, worker *corev1.PodSpec) {
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		addFlags(&pod.Containers[0],
			flag{name: "--dist-init-addr", value: leaderAddress + ":" + distributedPort},
			flag{name: "--nnodes", value: strconv.Itoa(int(replica.Nodes))},
			flag{name: "--node-rank", value: podIndex})
	}
	withoutProbes(&worker.Containers[0])
}
