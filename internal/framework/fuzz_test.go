// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzScript reads any text as a shell script. Flags are all that is ever added to it.
func FuzzScript(f *testing.F) {
	for _, seed := range slices.Concat(starting, mentioning) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		const marker = " --marker"
		if strings.Contains(script, marker) {
			return
		}
		if got := insertFlags(script, []flag{{name: "--marker", alone: true}}); strings.ReplaceAll(got, marker, "") != script {
			t.Fatalf("more than the flags changed:\n%q\nwas\n%q", got, script)
		}
	})
}

// FuzzCommand launches any command, words separated by newlines, on several nodes: what is found in it is launched, what is not is left as it is,
// and both halves are the same each time.
func FuzzCommand(f *testing.F) {
	for _, seed := range slices.Concat(starting, mentioning) {
		f.Add("bash\n-c", seed, int32(2), int64(8))
	}
	f.Add("python3\n-m\ndynamo.vllm", "--tensor-parallel-size\n16", int32(2), int64(8))
	f.Add("vllm\nserve\nm", "--distributed-executor-backend=ray", int32(4), int64(0))
	f.Add("trtllm-llmapi-launch\npython3", "-m\ndynamo.trtllm", int32(65536), int64(-1))
	f.Fuzz(func(t *testing.T, command, args string, nodes int32, gpus int64) {
		pod := func() *corev1.PodSpec {
			return &corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: strings.Split(command, "\n"), Args: strings.Split(args, "\n")}}}
		}
		launch := func() (leader, worker *corev1.PodSpec, launched bool) {
			leader, worker = pod(), pod()
			return leader, worker, Launch(Replica{Nodes: nodes, GPUs: gpus}, leader, worker)
		}
		found := Found(&pod().Containers[0])
		leader, worker, launched := launch()
		if launched && found == None {
			t.Fatalf("a command of no framework is launched")
		}
		if !launched && (cmp.Diff(pod(), leader) != "" || cmp.Diff(pod(), worker) != "") {
			t.Fatalf("what is not launched has changed: %s%s", cmp.Diff(pod(), leader), cmp.Diff(pod(), worker))
		}
		leaderAgain, workerAgain, _ := launch()
		if diff := cmp.Diff(leader, leaderAgain) + cmp.Diff(worker, workerAgain); diff != "" {
			t.Fatalf("launched otherwise the second time: %s", diff)
		}
		if _, err := Detect(&pod().Containers[0], None); err != nil && !strings.Contains(err.Error(), "several frameworks") {
			t.Fatal(err)
		}
	})
}
