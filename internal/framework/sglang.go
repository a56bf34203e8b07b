// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// launchSGLang makes all nodes run the same command, because SGLang itself divides the model among the nodes.
func launchSGLang(replica Replica, leader, worker *corev1.PodSpec) {
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		addFlags(&pod.Containers[0],
			flag{name: "--dist-init-addr", value: leaderAddress + ":" + distributedPort},
			flag{name: "--nnodes", value: strconv.Itoa(int(replica.Nodes))},
			flag{name: "--node-rank", value: podIndex})
	}
	withoutProbes(&worker.Containers[0])
}
