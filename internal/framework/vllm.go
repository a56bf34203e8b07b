// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// ExecutorRay makes vLLM span nodes with Ray.
const ExecutorRay = "ray"

const (
	executorMP   = "mp"
	executorFlag = "--distributed-executor-backend"
)

// launchVLLM determines how vLLM spans the nodes. This depends on the number of GPUs that the model requests (tensor x pipeline x data
// parallel) and on the number of GPUs that a node has:
//
//	one copy of the model does not fit on a node  -> its ranks span nodes, by vLLM's own processes or, if requested, Ray
//	one copy fits, not all data-parallel copies   -> each node runs its share of the copies
//	all copies fit on a node                      -> nothing to add
//
// Elastic expert parallelism adds nodes at runtime, so launchVLLM always starts a Ray cluster for it, which the workers join.
//
// The command's own --distributed-executor-backend takes precedence over the replica's executor. If one copy of the model spans nodes, a
// command that starts Ray itself, or that names a backend other than mp and ray, starts as written.
func launchVLLM(replica Replica, leader, worker *corev1.PodSpec) bool {
	main := &leader.Containers[0]
	model, data, ok := vllmParallelism(main)
	if !ok {
		return false
	}
	executor, given := flagValue(main, executorFlag)
	if !given {
		executor = cmp.Or(replica.Executor, executorMP)
	}
	nodes := int64(replica.Nodes)
	gpus := replica.GPUs
	if gpus == 0 { // allocated in another way: assume as many as the model needs
		gpus = (model*data + nodes - 1) / nodes
	}
	switch {
	case hasFlag(main, "--enable-elastic-ep"):
		vllmRay(leader, worker, joinWhenLive)
	case model > gpus && (startsRay(main) || executor != executorMP && executor != ExecutorRay):
		return false
	case model > gpus && executor == ExecutorRay:
		addFlags(main, flag{name: executorFlag, value: ExecutorRay})
		vllmRay(leader, worker, join)
	case model > gpus:
		vllmProcesses(replica, leader, worker)
	case model*data > gpus:
		local := gpus / model
		if data%nodes == 0 { // evenly, in case there are more GPUs than copies
			local = min(local, data/nodes)
		}
		vllmDataParallel(local, data, leader, worker)
	}
	withoutProbes(&worker.Containers[0])
	return true
}

// vllmParallelism returns the number of GPUs for one copy of the model, and the number of data-parallel copies. ok is false if the value of
// a flag is not a positive integer.
func vllmParallelism(main *corev1.Container) (model, data int64, ok bool) {
	tensor, okTensor := flagNumber(main, "--tensor-parallel-size", "-tp")
	pipeline, okPipeline := flagNumber(main, "--pipeline-parallel-size", "-pp")
	data, okData := flagNumber(main, "--data-parallel-size", "-dp")
	return tensor * pipeline, data, okTensor && okPipeline && okData
}

// vllmProcesses makes one copy of the model span the nodes with vLLM's own processes.
func vllmProcesses(replica Replica, leader, worker *corev1.PodSpec) {
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		main := &pod.Containers[0]
		addFlags(main,
			flag{name: executorFlag, value: executorMP},
			flag{name: "--nnodes", value: strconv.Itoa(int(replica.Nodes))},
			flag{name: "--master-addr", value: leaderAddress},
			flag{name: "--master-port", value: distributedPort},
			flag{name: "--node-rank", value: podIndex})
		addEnv(main, corev1.EnvVar{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
		}})
	}
	addFlags(&worker.Containers[0], flag{name: "--headless", alone: true})
	worker.InitContainers = append(worker.InitContainers, waitForLeader(&worker.Containers[0]))
}

// waitForLeader returns an init container that delays a worker until the leader listens, so that the workers of a slow leader do not
// crash-loop.
func waitForLeader(main *corev1.Container) corev1.Container {
	const script = `import os, socket, time
time.sleep(` + publishing + `)
leader = (os.environ["` + EnvLeaderAddress + `"], ` + distributedPort + `)
while True:
    try:
        socket.create_connection(leader, timeout=5).close()
        break
    except OSError as why:
        print("waiting for the leader at %s:%d: %s" % (*leader, why), flush=True)
        time.sleep(2)
`
	return corev1.Container{
		Name:            "wait-for-leader-mp",
		Image:           main.Image,
		ImagePullPolicy: main.ImagePullPolicy,
		Command:         []string{"python3", "-c", script},
		SecurityContext: main.SecurityContext.DeepCopy(),
	}
}

// vllmDataParallel makes each node run its share of the data-parallel copies. The ranks of the copies are numbered across all nodes.
func vllmDataParallel(local, data int64, leader, worker *corev1.PodSpec) {
	share := strconv.FormatInt(local, 10)
	start := map[*corev1.PodSpec]flag{
		leader: {name: "--data-parallel-start-rank", value: "0"},
		worker: {name: "--data-parallel-start-rank", value: fmt.Sprintf("$((%s * %s))", share, EnvPodIndex), shell: true},
	}
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		addFlags(&pod.Containers[0],
			flag{name: "--data-parallel-hybrid-lb", alone: true},
			flag{name: "--data-parallel-size", value: strconv.FormatInt(data, 10)},
			flag{name: "--data-parallel-size-local", value: share},
			start[pod],
			flag{name: "--data-parallel-address", value: leaderAddress},
			flag{name: "--data-parallel-rpc-port", value: dataRPCPort})
	}
}

// Scripts with which a worker joins the leader's Ray cluster.
const (
	join = `sleep ` + publishing + `; ` +
		`until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], ` + rayPort + `), timeout=5)' ` +
		`"$` + EnvLeaderAddress + `"; do sleep 2; done; ` + joinNow
	joinWhenLive = `sleep ` + publishing + `; ` +
		`until python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=5)' ` +
		`"http://$` + EnvLeaderAddress + `:${DYN_SYSTEM_PORT:-9090}/live"; do sleep 5; done; ` + joinNow
	joinNow = `exec ray start --address="$` + EnvLeaderAddress + `:` + rayPort + `" --block`
)

// vllmRay starts a Ray cluster. The leader is the head of the cluster and runs the command; the workers only join the cluster.
func vllmRay(leader, worker *corev1.PodSpec, joining string) {
	const head = "ray start --head --port=" + rayPort
	main := &leader.Containers[0]
	if script := shellScript(main); script != nil {
		*script = head + " || exit 1\n" + *script
	} else {
		throughShell(main, head+` && exec "$0" "$@"`)
	}
	member := &worker.Containers[0]
	member.Command, member.Args = []string{"/bin/sh", "-c", joining}, nil
}

// addEnv adds a variable unless the container already has it.
func addEnv(c *corev1.Container, env corev1.EnvVar) {
	for i := range c.Env {
		if c.Env[i].Name == env.Name {
			return
		}
	}
	c.Env = append(c.Env, env)
}
