// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework starts vLLM, SGLang and TensorRT-LLM on several nodes.
//
// A replica of a multinode component consists of one leader pod and its worker pods, all created from the user's one container. The program
// must know the address of the leader, the number of nodes, and the index of its own node. All pods of a role share one template, so each
// pod gets these values in environment variables (PodVars). Kubernetes expands the variables in commands that contain $(NAME):
//
//	written:  python3 -m dynamo.sglang --model-path m --tp 16
//	started:  python3 -m dynamo.sglang --model-path m --tp 16 \
//	              --dist-init-addr $(TRELLIS_LEADER_ADDRESS):29500 --nnodes 2 --node-rank $(TRELLIS_POD_INDEX)
//
// The command keeps the user's form. Flags are appended to a list of words, or inserted after the module's name in a shell script, wherever
// in the command that script is. The script is parsed, so that comments and printed text are not mistaken for commands; every other byte of
// the script stays the same. A flag that the user has set is not added again. A command without a known framework, or a command that cannot
// be parsed, starts as written. "vllm serve" is launched like Dynamo's vLLM module, with the flags after the model.
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

// Environment variables that every pod of a multinode replica has, before its other variables.
const (
	EnvLeaderAddress = "TRELLIS_LEADER_ADDRESS"
	EnvHosts         = "TRELLIS_HOSTS" // the addresses of all pods, leader first, separated by commas; see [WithoutHosts]
	EnvPodIndex      = "TRELLIS_POD_INDEX"
	EnvReplica       = "TRELLIS_REPLICA"
)

const (
	leaderAddress = "$(" + EnvLeaderAddress + ")"
	podIndex      = "$(" + EnvPodIndex + ")"
)

// Replica contains the properties of a multinode replica on which its launch depends, in addition to the command.
type Replica struct {
	// Nodes is the number of pods: the leader and its workers.
	Nodes int32
	// GPUs is the number of GPUs of each pod.
	GPUs int64
	// Executor is the executor with which vLLM spans several nodes, "mp" or "ray"; "" for mp.
	Executor string
}

// maxHosts limits the length of the address list, even for a stored object with more pods. It equals the API's maximum number of pods in a
// replica.
const maxHosts = 4096

// PodVars returns the environment variables of the pod with the given index. The function address returns a pod's DNS name from its index.
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

// WithoutHosts removes EnvHosts from the variables of a container that does not mention EnvHosts. Otherwise the pods of a replica with n
// pods would contain n times n addresses.
func WithoutHosts(c *corev1.Container, vars []corev1.EnvVar) []corev1.EnvVar {
	if hasText(c, EnvHosts) {
		return vars
	}
	return slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool { return v.Name == EnvHosts })
}

// hasText reports whether a command or a variable of the container contains the text.
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

// Launch turns two copies of one pod into the leader and the worker of a replica. The first container runs the model. Launch returns false,
// and leaves both pods unchanged, if the command does not show the framework or how to distribute the framework's ranks.
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

// withoutProbes removes the probes of a worker, because a worker answers no requests and the leader's probes cover the replica.
func withoutProbes(c *corev1.Container) {
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
}
