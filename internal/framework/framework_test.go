// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDetect(t *testing.T) {
	tests := map[string]struct {
		command, args []string
		declared      string
		want, wantErr string
	}{
		"words in command":              {command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--model", "m"}, want: VLLM},
		"module in args":                {command: []string{"python3"}, args: []string{"-m", "dynamo.sglang"}, want: SGLang},
		"script in args":                {command: []string{"/bin/sh", "-c"}, args: []string{"python3 -m dynamo.trtllm --x"}, want: TRTLLM},
		"login shell":                   {command: []string{"/bin/bash", "-lc"}, args: []string{"set -eu\npython3 -m dynamo.vllm \\\n  --model m"}, want: VLLM},
		"script in command":             {command: []string{"/bin/bash", "-c", "exec python3 -m dynamo.vllm --model m"}, want: VLLM},
		"after other commands":          {command: []string{"bash", "-c"}, args: []string{"ulimit -l unlimited && exec python3 -m dynamo.sglang --tp 16"}, want: SGLang},
		"a submodule":                   {command: []string{"python3.12", "-u", "-m", "dynamo.sglang.worker"}, want: SGLang},
		"continued line":                {command: []string{"sh", "-c"}, args: []string{"python3 \\\n -m dynamo.vllm"}, want: VLLM},
		"quoted inside":                 {command: []string{"sh", "-c"}, args: []string{"sh -c 'python3 -m dynamo.vllm'"}, want: VLLM},
		"commented out":                 {command: []string{"sh", "-c"}, args: []string{"# python3 -m dynamo.vllm\npython3 -m my.server"}, want: None},
		"another behind a comment":      {command: []string{"sh", "-c"}, args: []string{"python3 -m dynamo.vllm # was: python3 -m dynamo.sglang"}, want: VLLM},
		"another in printed text":       {command: []string{"sh", "-c"}, args: []string{"echo \"use python3 -m dynamo.sglang\"; echo python3 -m dynamo.trtllm\npython3 -m dynamo.vllm"}, want: VLLM},
		"another in a flag's value":     {command: []string{"sh", "-c"}, args: []string{"python3 -m dynamo.vllm --note 'not python3 -m dynamo.sglang'"}, want: VLLM},
		"another in a list of words":    {command: []string{"python3", "-m", "dynamo.vllm", "--note", "not python3 -m dynamo.sglang"}, want: VLLM},
		"in an array":                   {command: []string{"bash", "-c"}, args: []string{"CMD=(python3 -m dynamo.sglang --tp 2)\nexec \"${CMD[@]}\""}, want: SGLang},
		"in a variable":                 {command: []string{"bash", "-c"}, args: []string{"CMD=\"python3 -m dynamo.sglang --tp $TP\"; exec $CMD"}, want: SGLang},
		"a variable only printed":       {command: []string{"bash", "-c"}, args: []string{"OLD=\"python3 -m dynamo.sglang\"; echo $OLD; python3 -m dynamo.vllm"}, want: VLLM},
		"a script behind an entrypoint": {command: []string{"/opt/entrypoint.sh", "bash", "-c"}, args: []string{"python3 -m dynamo.vllm"}, want: VLLM},
		"a line for an entrypoint":      {command: []string{"/entrypoint.sh"}, args: []string{"python3 -m dynamo.vllm --model m"}, want: VLLM},
		"in a file that is run":         {command: []string{"bash", "-c"}, args: []string{"cat > /tmp/run <<'EOF'\npython3 -m dynamo.vllm\nEOF\nbash /tmp/run"}, want: VLLM},
		"a value for Kubernetes":        {command: []string{"sh", "-c"}, args: []string{"A=$$(date) python3 -m dynamo.vllm --host $(POD_IP)"}, want: VLLM},
		"vllm serve is no module":       {command: []string{"vllm", "serve", "m"}, declared: SGLang, want: SGLang},
		"no shell script":               {command: []string{"sh", "-c"}, args: []string{"if then python3 -m dynamo.vllm"}, want: None},
		"another module":                {command: []string{"python3", "-m", "dynamo.mocker"}, want: None},
		"similar module":                {command: []string{"python3", "-m", "dynamo.vllm_omni"}, want: None},
		"no command":                    {want: None},
		"declared":                      {command: []string{"./start"}, declared: VLLM, want: VLLM},
		"declared the same":             {command: []string{"python3", "-m", "dynamo.vllm"}, declared: VLLM, want: VLLM},
		"declared another":              {command: []string{"python3", "-m", "dynamo.vllm"}, declared: SGLang, wantErr: `backend framework mismatch: detected "vllm" from command but explicitly configured as "sglang"`},
		"several in one script":         {command: []string{"sh", "-c"}, args: []string{"python3 -m dynamo.vllm & python3 -m dynamo.sglang"}, wantErr: "several frameworks (vllm, sglang)"},
		"the same twice in a script":    {command: []string{"sh", "-c"}, args: []string{"if x; then python3 -m dynamo.vllm; else python3 -m dynamo.vllm -q; fi"}, want: VLLM},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Detect(&corev1.Container{Command: tc.command, Args: tc.args}, tc.declared)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestPodVars(t *testing.T) {
	address := func(i int32) string { return "w-1-" + string('0'+i) + ".w-pods.ns.svc" }
	want := []corev1.EnvVar{
		{Name: "TRELLIS_LEADER_ADDRESS", Value: "w-1-0.w-pods.ns.svc"},
		{Name: "TRELLIS_HOSTS", Value: "w-1-0.w-pods.ns.svc,w-1-1.w-pods.ns.svc"},
		{Name: "TRELLIS_POD_INDEX", Value: "1"},
		{Name: "TRELLIS_REPLICA", Value: "1"},
	}
	if diff := cmp.Diff(want, PodVars(1, 1, 2, address)); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutHosts(t *testing.T) {
	exec := func(words ...string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: words}}
	}
	hook := func(words ...string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}
	}
	tests := map[string]struct {
		c    corev1.Container
		want bool
	}{
		"nowhere":          {corev1.Container{Command: []string{"run", "$(TRELLIS_LEADER_ADDRESS)"}}, false},
		"in the command":   {corev1.Container{Command: []string{"sh", "-c", "for h in ${TRELLIS_HOSTS//,/ }; do ping $h; done"}}, true},
		"in the arguments": {corev1.Container{Args: []string{"--hosts=$(TRELLIS_HOSTS)"}}, true},
		"in a variable":    {corev1.Container{Env: []corev1.EnvVar{{Name: "PEERS", Value: "$(TRELLIS_HOSTS)"}}}, true},
		"in a probe":       {corev1.Container{StartupProbe: &corev1.Probe{ProbeHandler: exec("sh", "-c", "echo $TRELLIS_HOSTS")}}, true},
		"in a hook":        {corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: hook("sh", "-c", "echo $TRELLIS_HOSTS")}}, true},
		"a probe without":  {corev1.Container{LivenessProbe: &corev1.Probe{ProbeHandler: exec("true")}}, false},
		"a hook without":   {corev1.Container{Lifecycle: &corev1.Lifecycle{PostStart: hook("true")}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			all := PodVars(1, 1, 2, func(int32) string { return "a" })
			got := slices.ContainsFunc(WithoutHosts(&tc.c, all), func(v corev1.EnvVar) bool { return v.Name == EnvHosts })
			if got != tc.want {
				t.Errorf("the container has the list: %t, want %t", got, tc.want)
			}
			if len(all) != 4 {
				t.Errorf("%d variables left for the next container, want 4", len(all))
			}
		})
	}
}

// started is what a replica's commands became.
type started struct{ leader, worker []string }

func TestLaunch(t *testing.T) {
	sglang := "--dist-init-addr $(TRELLIS_LEADER_ADDRESS):29500 --nnodes 2 --node-rank $(TRELLIS_POD_INDEX)"
	mp := "--distributed-executor-backend mp --nnodes 2 --master-addr $(TRELLIS_LEADER_ADDRESS) --master-port 29500 --node-rank $(TRELLIS_POD_INDEX)"
	tests := map[string]struct {
		command, args []string
		replica       Replica
		want          started
		asWritten     bool
	}{
		"sglang, words": {
			command: []string{"python3", "-m", "dynamo.sglang"}, args: []string{"--tp", "16"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same(words1("python3 -m dynamo.sglang --tp 16 " + sglang)),
		},
		"sglang, words in args": {
			command: []string{"python3"}, args: []string{"-m", "dynamo.sglang", "--tp", "16"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same(words1("python3 -m dynamo.sglang --tp 16 " + sglang)),
		},
		"sglang, script behind other commands": {
			command: []string{"bash", "-c"}, args: []string{`ulimit -l unlimited && exec python3 -m dynamo.sglang --x '{"a": "b c"}'`}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"bash", "-c", "ulimit -l unlimited && exec python3 -m dynamo.sglang " + sglang + ` --x '{"a": "b c"}'`}),
		},
		"sglang, script behind options": {
			command: []string{"bash", "--login", "-euo", "pipefail", "-c", "python3 -m dynamo.sglang; echo done"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"bash", "--login", "-euo", "pipefail", "-c", "python3 -m dynamo.sglang " + sglang + "; echo done"}),
		},
		"sglang, words behind a wrapper": {
			command: []string{"bash", "wrap.sh"}, args: []string{"python3", "-m", "dynamo.sglang"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same(words1("bash wrap.sh python3 -m dynamo.sglang " + sglang)),
		},
		"sglang, only what is run": {
			command: []string{"sh", "-c"}, args: []string{"# python3 -m dynamo.sglang\nif x; then python3 -m dynamo.sglang -a\nelse python3 -m dynamo.sglang -b; fi"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", "# python3 -m dynamo.sglang\nif x; then python3 -m dynamo.sglang " + sglang + " -a\nelse python3 -m dynamo.sglang " + sglang + " -b; fi"}),
		},
		"sglang, the user's own rank stays": {
			command: []string{"sh", "-c", "python3 -m dynamo.sglang --nnodes=2 --node-rank $RANK"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", "python3 -m dynamo.sglang --dist-init-addr $(TRELLIS_LEADER_ADDRESS):29500 --nnodes=2 --node-rank $RANK"}),
		},
		"vllm, a model larger than a node, words": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--tensor-parallel-size", "2"}, replica: Replica{Nodes: 2, GPUs: 1},
			want: started{words1("python3 -m dynamo.vllm --tensor-parallel-size 2 " + mp), words1("python3 -m dynamo.vllm --tensor-parallel-size 2 " + mp + " --headless")},
		},
		"vllm, the same in a script inside command": {
			command: []string{"/bin/bash", "-c", "exec python3 -m dynamo.vllm -tp=4 -pp 2"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: started{
				[]string{"/bin/bash", "-c", "exec python3 -m dynamo.vllm " + mp + " -tp=4 -pp 2"},
				[]string{"/bin/bash", "-c", "exec python3 -m dynamo.vllm --headless " + mp + " -tp=4 -pp 2"},
			},
		},
		"vllm, underscores in flags": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--tensor_parallel_size", "2", "--node_rank=1"}, replica: Replica{Nodes: 2, GPUs: 1},
			want: started{
				words1("python3 -m dynamo.vllm --tensor_parallel_size 2 --node_rank=1 " + strings.TrimSuffix(mp, " --node-rank $(TRELLIS_POD_INDEX)")),
				words1("python3 -m dynamo.vllm --tensor_parallel_size 2 --node_rank=1 " + strings.TrimSuffix(mp, " --node-rank $(TRELLIS_POD_INDEX)") + " --headless"),
			},
		},
		"vllm serve, underscores in a script's flags": {
			command: []string{"/bin/sh", "-c"}, args: []string{"vllm serve a_b --pipeline_parallel-size=2 --data_parallel_size 1"}, replica: Replica{Nodes: 2, GPUs: 1},
			want: started{
				[]string{"/bin/sh", "-c", "vllm serve a_b " + mp + " --pipeline_parallel-size=2 --data_parallel_size 1"},
				[]string{"/bin/sh", "-c", "vllm serve a_b --headless " + mp + " --pipeline_parallel-size=2 --data_parallel_size 1"},
			},
		},
		"sglang, its parser does not know underscores": {
			command: []string{"python3", "-m", "dynamo.sglang"}, args: []string{"--node_rank", "1"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same(words1("python3 -m dynamo.sglang --node_rank 1 " + sglang)),
		},
		"vllm, no flag says how large": {
			command: []string{"/bin/sh", "-c"}, args: []string{"python3 -m dynamo.vllm --model big"}, replica: Replica{Nodes: 4, GPUs: 8},
			want: same([]string{"/bin/sh", "-c", "python3 -m dynamo.vllm --model big"}),
		},
		"vllm, size in a variable": {
			command: []string{"/bin/sh", "-c"}, args: []string{"python3 -m dynamo.vllm --tensor-parallel-size $TP"}, replica: Replica{Nodes: 4, GPUs: 8},
			want: same([]string{"/bin/sh", "-c", "python3 -m dynamo.vllm --tensor-parallel-size $TP"}), asWritten: true,
		},
		"vllm, ray in a script": {
			command: []string{"sh", "-c"}, args: []string{"python3 -m dynamo.vllm --tensor-parallel-size 16"}, replica: Replica{Nodes: 2, GPUs: 8, Executor: "ray"},
			want: started{
				[]string{"sh", "-c", "ray start --head --port=6379 || exit 1\npython3 -m dynamo.vllm --distributed-executor-backend ray --tensor-parallel-size 16"},
				[]string{"/bin/sh", "-c", joinsRay},
			},
		},
		"vllm, ray from words": {
			command: []string{"python3", "-m", "dynamo.vllm"}, args: []string{"--tensor-parallel-size", "16"}, replica: Replica{Nodes: 2, GPUs: 8, Executor: "ray"},
			want: started{
				[]string{"/bin/sh", "-c", `ray start --head --port=6379 && exec "$0" "$@"`, "python3", "-m", "dynamo.vllm", "--tensor-parallel-size", "16", "--distributed-executor-backend", "ray"},
				[]string{"/bin/sh", "-c", joinsRay},
			},
		},
		"sglang, the module's name in printed text": {
			command: []string{"sh", "-c"}, args: []string{"echo 'python3 -m dynamo.sglang starts'; python3 -m dynamo.sglang # not python3 -m dynamo.sglang"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", "echo 'python3 -m dynamo.sglang starts'; python3 -m dynamo.sglang " + sglang + " # not python3 -m dynamo.sglang"}),
		},
		"sglang, a shell within a shell": {
			command: []string{"sh", "-c"}, args: []string{`exec bash -c "python3 -m dynamo.sglang --name \"a b\"" && echo "done"`}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", `exec bash -c "python3 -m dynamo.sglang ` + sglang + ` --name \"a b\"" && echo "done"`}),
		},
		"sglang, another program's flag": {
			command: []string{"sh", "-c"}, args: []string{"prepare --nnodes 4; python3 -m dynamo.sglang --tp 8"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", "prepare --nnodes 4; python3 -m dynamo.sglang " + sglang + " --tp 8"}),
		},
		"sglang, flags in a variable": {
			command: []string{"sh", "-c"}, args: []string{"FLAGS='--tp 8 --nnodes 2 --node-rank 1' # --dist-init-addr x\npython3 -m dynamo.sglang $FLAGS"}, replica: Replica{Nodes: 2, GPUs: 4},
			want: same([]string{"sh", "-c", "FLAGS='--tp 8 --nnodes 2 --node-rank 1' # --dist-init-addr x\npython3 -m dynamo.sglang --dist-init-addr $(TRELLIS_LEADER_ADDRESS):29500 $FLAGS"}),
		},
		"vllm serve, words": {
			command: []string{"vllm", "serve", "big/model"}, args: []string{"-tp", "16"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: started{words1("vllm serve big/model -tp 16 " + mp), words1("vllm serve big/model -tp 16 " + mp + " --headless")},
		},
		"vllm serve, script": {
			command: []string{"/bin/sh", "-c"}, args: []string{"exec /opt/venv/bin/vllm serve big/model -tp 16"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: started{
				[]string{"/bin/sh", "-c", "exec /opt/venv/bin/vllm serve big/model " + mp + " -tp 16"},
				[]string{"/bin/sh", "-c", "exec /opt/venv/bin/vllm serve big/model --headless " + mp + " -tp 16"},
			},
		},
		"vllm serve, the model as a flag": {
			command: []string{"/bin/sh", "-c"}, args: []string{"vllm serve --model big/model -tp 16"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: started{
				[]string{"/bin/sh", "-c", "vllm serve " + mp + " --model big/model -tp 16"},
				[]string{"/bin/sh", "-c", "vllm serve --headless " + mp + " --model big/model -tp 16"},
			},
		},
		"vllm, ray by flag": {
			command: []string{"sh", "-c"}, args: []string{"python3 -m dynamo.vllm -tp 16 --distributed-executor-backend ray"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: started{
				[]string{"sh", "-c", "ray start --head --port=6379 || exit 1\npython3 -m dynamo.vllm -tp 16 --distributed-executor-backend ray"},
				[]string{"/bin/sh", "-c", joinsRay},
			},
		},
		"vllm, the flag counts before the annotation": {
			command: []string{"python3", "-m", "dynamo.vllm", "-tp", "2", "--distributed-executor-backend=mp"}, replica: Replica{Nodes: 2, GPUs: 1, Executor: "ray"},
			want: started{
				words1("python3 -m dynamo.vllm -tp 2 --distributed-executor-backend=mp " + strings.TrimPrefix(mp, "--distributed-executor-backend mp ")),
				words1("python3 -m dynamo.vllm -tp 2 --distributed-executor-backend=mp " + strings.TrimPrefix(mp, "--distributed-executor-backend mp ") + " --headless"),
			},
		},
		"vllm, a cluster of Ray of its own": {
			command: []string{"sh", "-c"}, args: []string{"ray start --head; vllm serve m -tp 16 --distributed-executor-backend ray"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same([]string{"sh", "-c", "ray start --head; vllm serve m -tp 16 --distributed-executor-backend ray"}), asWritten: true,
		},
		"vllm, another backend": {
			command: []string{"python3", "-m", "dynamo.vllm", "-tp", "16", "--distributed-executor-backend", "external_launcher"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same(words1("python3 -m dynamo.vllm -tp 16 --distributed-executor-backend external_launcher")), asWritten: true,
		},
		"an unknown program": {
			command: []string{"python3", "-m", "dynamo.mocker"}, replica: Replica{Nodes: 2, GPUs: 8},
			want: same([]string{"python3", "-m", "dynamo.mocker"}), asWritten: true,
		},
		"trtllm without gpus": {
			command: []string{"python3", "-m", "dynamo.trtllm"}, replica: Replica{Nodes: 2},
			want: same([]string{"python3", "-m", "dynamo.trtllm"}), asWritten: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			leader, worker := twoPods(tc.command, tc.args)
			if ok := Launch(tc.replica, leader, worker); ok == tc.asWritten {
				t.Errorf("Launch = %v", ok)
			}
			got := started{commandOf(leader), commandOf(worker)}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(started{})); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorkersHaveNoProbes(t *testing.T) {
	for _, module := range []string{"dynamo.vllm", "dynamo.sglang"} {
		leader, worker := twoPods([]string{"python3", "-m", module}, nil)
		Launch(Replica{Nodes: 2, GPUs: 8}, leader, worker)
		if c := leader.Containers[0]; c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil {
			t.Errorf("%s: the leader lost probes", module)
		}
		if c := worker.Containers[0]; c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
			t.Errorf("%s: the worker kept probes", module)
		}
	}
}

func TestWorkersOfVLLMWaitForTheLeader(t *testing.T) {
	leader, worker := twoPods([]string{"python3", "-m", "dynamo.vllm", "--tensor-parallel-size", "16"}, nil)
	Launch(Replica{Nodes: 2, GPUs: 8}, leader, worker)
	if len(leader.InitContainers) != 0 || len(worker.InitContainers) != 1 {
		t.Fatalf("init containers: leader %d, worker %d", len(leader.InitContainers), len(worker.InitContainers))
	}
	wait := worker.InitContainers[0]
	if wait.Name != "wait-for-leader-mp" || wait.Image != "img" || !strings.Contains(wait.Command[2], `"TRELLIS_LEADER_ADDRESS"], 29500`) {
		t.Errorf("init container %+v", wait)
	}
	env := worker.Containers[0].Env
	if len(env) != 1 || env[0].Name != "VLLM_NIXL_SIDE_CHANNEL_HOST" || env[0].ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("env %+v", env)
	}
}

func TestTensorRTLLMPods(t *testing.T) {
	leader, worker := twoPods([]string{"python3", "-m", "dynamo.trtllm"}, []string{"--model-path", "m"})
	if !Launch(Replica{Nodes: 2, GPUs: 4}, leader, worker) {
		t.Fatal("not launched")
	}
	for name, pod := range map[string]*corev1.PodSpec{"leader": leader, "worker": worker} {
		if len(pod.Volumes) != 1 || pod.Volumes[0].Secret.SecretName != SSHSecret || pod.Containers[0].VolumeMounts[0].MountPath != "/ssh-pk" {
			t.Errorf("%s has no ssh keys", name)
		}
	}
	c := worker.Containers[0]
	if c.LivenessProbe != nil || c.StartupProbe != nil || c.ReadinessProbe == nil || c.ReadinessProbe.TCPSocket.Port.IntValue() != 2222 {
		t.Errorf("worker's probes: %v %v %v", c.LivenessProbe, c.StartupProbe, c.ReadinessProbe)
	}
}

// joinsRay is the script of a worker of a Ray cluster.
const joinsRay = `sleep 5; until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], 6379), timeout=5)' ` +
	`"$TRELLIS_LEADER_ADDRESS"; do sleep 2; done; exec ray start --address="$TRELLIS_LEADER_ADDRESS:6379" --block`

// The pods of a replica start together: a script that looks up another pod at once may find that it has no address yet, and DNS servers
// cache that.
func TestScriptsLookOtherPodsUpLater(t *testing.T) {
	for name, tc := range map[string]struct {
		command []string
		gpus    int64
		script  func(leader, worker *corev1.PodSpec) string
		lookup  string
	}{
		"vllm": {[]string{"python3", "-m", "dynamo.vllm", "-tp", "4"}, 2, func(_, worker *corev1.PodSpec) string {
			return worker.InitContainers[0].Command[2]
		}, "create_connection"},
		"ray":     {[]string{"python3", "-m", "dynamo.vllm", "-tp", "4", "--distributed-executor-backend=ray"}, 2, workersScript, "create_connection"},
		"elastic": {[]string{"python3", "-m", "dynamo.vllm", "-dp", "4", "--enable-elastic-ep"}, 2, workersScript, "urlopen"},
		"trtllm":  {[]string{"python3", "-m", "dynamo.trtllm"}, 2, func(leader, _ *corev1.PodSpec) string { return leader.Containers[0].Command[2] }, "/dev/tcp"},
	} {
		leader, worker := twoPods(tc.command, nil)
		if !Launch(Replica{Nodes: 2, GPUs: tc.gpus}, leader, worker) {
			t.Fatalf("%s: not launched", name)
		}
		script := tc.script(leader, worker)
		pause := regexp.MustCompile(`(?m)^(time\.sleep\(5\)$|sleep 5(;|$))`).FindStringIndex(script)
		if pause == nil || pause[0] > strings.Index(script, tc.lookup) {
			t.Errorf("%s: the script has no pause before it looks up another pod:\n%s", name, script)
		}
	}
}

func workersScript(_, worker *corev1.PodSpec) string { return worker.Containers[0].Command[2] }

func same(words []string) started { return started{words, words} }

func words1(s string) []string { return strings.Fields(s) }

func commandOf(pod *corev1.PodSpec) []string {
	return append(append([]string{}, pod.Containers[0].Command...), pod.Containers[0].Args...)
}

func twoPods(command, args []string) (leader, worker *corev1.PodSpec) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live"}}}
	pod := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "img", Command: command, Args: args, LivenessProbe: probe, ReadinessProbe: probe, StartupProbe: probe,
	}}}
	return pod.DeepCopy(), pod.DeepCopy()
}

// A replica of any size lists as many addresses as the API allows pods.
func TestPodVarsOfAnySize(t *testing.T) {
	vars := PodVars(0, 0, 1<<31-1, func(int32) string { return "a" })
	if got := strings.Count(vars[1].Value, "a"); got != maxHosts {
		t.Errorf("%d addresses, want %d", got, maxHosts)
	}
}
