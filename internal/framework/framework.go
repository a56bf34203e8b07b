// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework knows how vLLM, SGLang and TensorRT-LLM start on several nodes.
//
// A replica of a multinode component is one leader pod and some worker pods, all made from the user's one container. What tells them apart
// has to reach the program: where the leader is, how many nodes there are, which one this is. All pods of a role share one template, so
// the answers are variables that every pod gets (PodVars) and that Kubernetes puts into commands where they say $(NAME):
//
//	written:  python3 -m dynamo.sglang --model-path m --tp 16
//	started:  python3 -m dynamo.sglang --model-path m --tp 16 \
//	              --dist-init-addr $(TRELLIS_LEADER_ADDRESS):29500 --nnodes 2 --node-rank $(TRELLIS_POD_INDEX)
//
// The command stays in the user's shape: words are appended to a list of words, and flags go right behind the module's name in a shell
// script, wherever that script stands. The script is parsed, so that comments and printed text are not taken for commands; every other
// byte of it stays. A flag the user gave himself is never given again, and a command in which no known framework can be found, or that
// does not parse, starts as written. "vllm serve" is launched as Dynamo's module of vLLM is, with the flags behind the model.
package framework

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Frameworks by name.
const (
	None   = ""
	VLLM   = "vllm"
	SGLang = "sglang"
	TRTLLM = "trtllm"
)

// Variables that every pod of a multinode replica has, before its others.
const (
	EnvLeaderAddress = "TRELLIS_LEADER_ADDRESS"
	EnvHosts         = "TRELLIS_HOSTS" // the addresses of all pods, leader first, with commas between; see [WithoutHosts]
	EnvPodIndex      = "TRELLIS_POD_INDEX"
	EnvReplica       = "TRELLIS_REPLICA"
)

const (
	leaderAddress = "$(" + EnvLeaderAddress + ")"
	podIndex      = "$(" + EnvPodIndex + ")"
)

// Replica is what the launch of a multinode replica depends on in addition to its command.
type Replica struct {
	// Nodes is the number of pods: the leader and its workers.
	Nodes int32
	// GPUs of each pod.
	GPUs int64
	// Executor is vLLM's way of spreading over nodes, "mp" or "ray"; empty is mp.
	Executor string
}

// maxHosts bounds the list of addresses, whatever a stored object asks for: it is the largest replica of the API.
const maxHosts = 4096

// PodVars are the variables of pod index of a replica; address gives each pod's DNS name.
func PodVars(ordinal, index, pods int32, address func(int32) string) []corev1.EnvVar {
	hosts := make([]string, min(pods, maxHosts))
	for i := range hosts {
		hosts[i] = address(int32(i))
	}
	return []corev1.EnvVar{
		{Name: EnvLeaderAddress, Value: address(0)},
		{Name: EnvHosts, Value: strings.Join(hosts, ",")},
		{Name: EnvPodIndex, Value: strconv.Itoa(int(index))},
		{Name: EnvReplica, Value: strconv.Itoa(int(ordinal))},
	}
}

// WithoutHosts leaves the list of all addresses out of the variables of a container that does not mention it: in a replica of n pods the
// lists are n times n addresses.
func WithoutHosts(c *corev1.Container, vars []corev1.EnvVar) []corev1.EnvVar {
	if hasText(c, EnvHosts) {
		return vars
	}
	return slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool { return v.Name == EnvHosts })
}

// hasText reports whether the text is in a command or in a variable of the container.
func hasText(c *corev1.Container, text string) bool {
	in := func(words []string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, text) })
	}
	for _, v := range c.Env {
		if strings.Contains(v.Value, text) {
			return true
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil && p.Exec != nil && in(p.Exec.Command) {
			return true
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && h.Exec != nil && in(h.Exec.Command) {
				return true
			}
		}
	}
	return in(c.Command) || in(c.Args)
}

// Launch turns two copies of one pod, whose first container runs the model, into a replica's leader and worker. It returns false when the
// framework or how its ranks are to be spread cannot be determined from the command: then both are left as they are.
func Launch(replica Replica, leader, worker *corev1.PodSpec) bool {
	switch Found(&leader.Containers[0]) {
	case VLLM:
		return launchVLLM(replica, leader, worker)
	case SGLang:
		launchSGLang(replica, leader, worker)
		return true
	case TRTLLM:
		return launchTRTLLM(replica, leader, worker)
	}
	return false
}

// withoutProbes: a worker answers no requests of its own, the leader speaks for the replica.
func withoutProbes(c *corev1.Container) {
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
}
