// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestTyped(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"plain":           {[]string{"get", "dgd,sg,ctopo"}, "kubectl get dgd,sg,ctopo"},
		"quoted":          {[]string{"patch", "-p", `{"a":1}`}, `kubectl patch -p '{"a":1}'`},
		"with a quote":    {[]string{"get", "it's"}, `kubectl get 'it'\''s'`},
		"too long":        {[]string{"get", strings.Repeat("x", 80), "-o", "json"}, "kubectl get " + strings.Repeat("x", 80) + " \\\n    -o json"},
		"just not":        {[]string{"get", strings.Repeat("x", 75), "-o", "json"}, "kubectl get " + strings.Repeat("x", 75) + " -o json"},
		"flags in a row":  {[]string{"get", "-A", "--watch", "-o=json"}, "kubectl get -A --watch -o=json"},
		"value by itself": {[]string{"get", "--selector", "a=b"}, "kubectl get --selector a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, typed(tc.args)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 25))
	name := strings.Repeat("n", 60)
	for title, tc := range map[string]struct{ output, want string }{
		"short":  {"created\n", "created\n"},
		"broken": {long, strings.TrimSpace(strings.Repeat("word ", 20)) + "\n    " + strings.TrimSpace(strings.Repeat("word ", 5)) + "\n"},
		"table that fits": {
			"NAME   AGE\na      5s\n", "NAME   AGE\na      5s\n",
		},
		"table too wide": {
			"NAME" + strings.Repeat(" ", 59) + "READY   USED BY" + strings.Repeat(" ", 23) + "AGE\n" + name + "   True    3" + strings.Repeat(" ", 29) + "5s\n",
			"NAME" + strings.Repeat(" ", 57) + "READY USED BY AGE\n" + name + " True  3       5s\n",
		},
		"two tables": {"NAME\na\n\nNAME\nb\n", "NAME\na\n\nNAME\nb\n"},
	} {
		t.Run(title, func(t *testing.T) {
			var b strings.Builder
			s := &stage{Writer: io.Writer(&b)}
			s.print(tc.output)
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTail(t *testing.T) {
	log := `{"level":"info","ts":"T1","msg":"one"}
{"level":"info","ts":"T2","controller":"graph","msg":"two"}
{"level":"info","ts":"T3","controller":"graph","msg":"two"}
{"level":"info","ts":"T4","logger":"h","msg":"healthz check failed"}
{"level":"error","ts":"T5","logger":"x","msg":"three","error":"bad luck"}
panic: no JSON
`
	want := "T3 info  graph: two (2 times)\nT5 error x: three: bad luck\npanic: no JSON"
	if diff := cmp.Diff(want, tail(log, 3)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFirstComment(t *testing.T) {
	for manifest, want := range map[string]string{
		"# One line.\nkind: X\n# later":       "One line.",
		"#  Two\n# lines.\n\n# Not this.\nk:": "Two lines.",
		"kind: X":                             "",
	} {
		if got := firstComment(manifest); got != want {
			t.Errorf("%q: got %q, want %q", manifest, got, want)
		}
	}
}

// TestClientsHaveALogger: without one, controller-runtime writes a stack trace to the terminal after 30 seconds. Outside of a clone the demo
// ends at once.
func TestClientsHaveALogger(t *testing.T) {
	t.Chdir(t.TempDir())
	if code := run(t.Context(), &stage{Writer: io.Discard}, "none", false); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if promise := reflect.ValueOf(log.Log.GetSink()).Elem().FieldByName("promise"); !promise.IsNil() {
		t.Error("no logger is set")
	}
}
