// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestWhatRuns starts the commands for real, with stand-ins for every program they call, and compares the words each program is given.
func TestWhatRuns(t *testing.T) {
	json := `{"a": "b c"}`
	tests := map[string]struct {
		command, args []string
		replica       Replica
		leader        string
		worker        string // pod 1
	}{
		"sglang": {
			command: []string{"bash", "-c"}, args: []string{`true && exec python3 -m dynamo.sglang --config '` + json + `'`}, replica: Replica{Nodes: 2, GPUs: 8},
			leader: "python3|-m|dynamo.sglang|--dist-init-addr|w-0:29500|--nnodes|2|--node-rank|0|--config|" + json,
			worker: "python3|-m|dynamo.sglang|--dist-init-addr|w-0:29500|--nnodes|2|--node-rank|1|--config|" + json,
		},
		"vllm data parallel, words": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--data-parallel-hybrid-lb", "--data-parallel-size", "16", "--config", json}, replica: Replica{Nodes: 2, GPUs: 8},
			leader: "python3|-m|dynamo.vllm|--data-parallel-hybrid-lb|--data-parallel-size|16|--config|" + json +
				"|--data-parallel-size-local|8|--data-parallel-start-rank|0|--data-parallel-address|w-0|--data-parallel-rpc-port|13445",
			worker: "python3|-m|dynamo.vllm|--data-parallel-hybrid-lb|--data-parallel-size|16|--config|" + json +
				"|--data-parallel-size-local|8|--data-parallel-address|w-0|--data-parallel-rpc-port|13445|--data-parallel-start-rank|8",
		},
		"vllm data parallel, script": {
			command: []string{"/bin/sh", "-c"}, args: []string{"python3 -m dynamo.vllm --tensor-parallel-size 2 \\\n --data-parallel-size 8"}, replica: Replica{Nodes: 2, GPUs: 8},
			leader: "python3|-m|dynamo.vllm|--data-parallel-hybrid-lb|--data-parallel-size-local|4|--data-parallel-start-rank|0|--data-parallel-address|w-0|--data-parallel-rpc-port|13445|--tensor-parallel-size|2|--data-parallel-size|8",
			worker: "python3|-m|dynamo.vllm|--data-parallel-hybrid-lb|--data-parallel-size-local|4|--data-parallel-start-rank|4|--data-parallel-address|w-0|--data-parallel-rpc-port|13445|--tensor-parallel-size|2|--data-parallel-size|8",
		},
		"vllm ray": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"-tp", "16", "--config", json}, replica: Replica{Nodes: 2, GPUs: 8, Executor: "ray"},
			leader: "ray|start|--head|--port=6379\npython3|-m|dynamo.vllm|-tp|16|--config|" + json + "|--distributed-executor-backend|ray",
			worker: "sleep|5\npython3|-c|import socket, sys; socket.create_connection((sys.argv[1], 6379), timeout=5)|w-0\n" +
				"ray|start|--address=w-0:6379|--block",
		},
		"vllm elastic": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--enable-elastic-ep"}, replica: Replica{Nodes: 2, GPUs: 8},
			leader: "ray|start|--head|--port=6379\npython3|-m|dynamo.vllm|--enable-elastic-ep",
			worker: "sleep|5\npython3|-c|import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=5)|http://w-0:9090/live\nray|start|--address=w-0:6379|--block",
		},
	}
	bin := standIns(t, "python3", "ray", "sleep")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			leader, worker := twoPods(tc.command, tc.args)
			Launch(tc.replica, leader, worker)
			if diff := cmp.Diff(tc.leader, run(t, bin, leader, "0", "w-0,w-1")); diff != "" {
				t.Errorf("leader (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.worker, run(t, bin, worker, "1", "w-0,w-1")); diff != "" {
				t.Errorf("worker (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScriptsOfTensorRTLLM has the shell read both scripts, and runs the leader's from where the pods are known to be up.
func TestScriptsOfTensorRTLLM(t *testing.T) {
	leader, worker := twoPods([]string{"/bin/sh", "-c"}, []string{`python3 -m dynamo.trtllm --served-model-name "${NAME}"`})
	Launch(Replica{Nodes: 2, GPUs: 4}, leader, worker)
	for _, pod := range []*corev1.PodSpec{leader, worker} {
		if out, err := exec.Command("bash", "-n", "-c", pod.Containers[0].Command[2]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	script := &leader.Containers[0].Command[2]
	*script = (*script)[strings.Index(*script, "options=()"):]
	got := run(t, standIns(t, "mpirun"), leader, "0", "w-0,w-1")
	for _, want := range []string{"-x|NAME|", "-x|PATH|", "|--oversubscribe|-n|8|-H|w-0:4,w-1:4|", "|-p 2222 ", `|trtllm-llmapi-launch|/bin/sh|-c|python3 -m dynamo.trtllm --served-model-name "${NAME}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("mpirun misses %q: %s", want, got)
		}
	}
	if strings.Contains(got, "|TRELLIS_POD_INDEX|") || strings.Contains(got, "|HOME|") {
		t.Errorf("mpirun passes on what is the leader's own: %s", got)
	}
}

// standIns are programs that write down their words and succeed.
func standIns(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		script := "#!/bin/sh\nprintf '%s' " + name + " >> \"$OUT\"\nfor w in \"$@\"; do printf '|%s' \"$w\" >> \"$OUT\"; done\necho >> \"$OUT\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run starts the pod's main container as a kubelet does: $(NAME) is replaced first, where NAME is known.
func run(t *testing.T, bin string, pod *corev1.PodSpec, index, hosts string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	leader, _, _ := strings.Cut(hosts, ",")
	known := strings.NewReplacer("$("+EnvLeaderAddress+")", leader, "$("+EnvPodIndex+")", index, "$("+EnvHosts+")", hosts)
	words := commandOf(pod)
	for i := range words {
		words[i] = known.Replace(words[i])
	}
	cmd := exec.Command(words[0], words[1:]...)
	if words[0] == "python3" {
		cmd.Path = filepath.Join(bin, "python3")
		cmd.Err = nil
	}
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "OUT=" + out, "HOME=/tmp", "NAME=n",
		EnvLeaderAddress + "=" + leader, EnvPodIndex + "=" + index, EnvHosts + "=" + hosts}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, text)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(got), "\n")
}
