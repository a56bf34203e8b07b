// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// server is a Prometheus that scrapes the operator of a sandbox.
type server struct {
	t       *testing.T
	address string
}

// startPrometheus runs bin/prometheus as configured by the shipped ServiceMonitor: it finds the metrics Service through the API server, and
// scrapes it over HTTPS with a token and the CA of the Secret. Only the address differs: a sandbox's operator is a process, not a pod.
func startPrometheus(t *testing.T, cluster *sandbox.Sandbox) *server {
	t.Helper()
	reader, err := cluster.NewMetricsReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replacing := func(target, with string) map[string]any {
		return map[string]any{"target_label": target, "replacement": with}
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{write("rules.yaml", groupsOf(t))},
		"scrape_configs": []any{map[string]any{
			"job_name": "service", "scheme": "https", "authorization": map[string]any{"credentials_file": write("token", []byte(reader.Token))},
			"tls_config":            map[string]any{"ca_file": write("ca.crt", reader.Authority), "server_name": reader.ServerName},
			"kubernetes_sd_configs": []any{map[string]any{"role": "service", "kubeconfig_file": cluster.Kubeconfig()}},
			"relabel_configs": []any{
				map[string]any{"source_labels": []string{"__meta_kubernetes_service_label_app_kubernetes_io_component"}, "regex": "metrics", "action": "keep"},
				map[string]any{"source_labels": []string{"__meta_kubernetes_service_name"}, "target_label": "job"},
				map[string]any{"source_labels": []string{"__meta_kubernetes_namespace"}, "target_label": "namespace"},
				replacing("pod", sandbox.DefaultManager), replacing("__address__", cluster.ManagerMetrics(sandbox.DefaultManager)),
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, address: freeAddress(t)}
	var log bytes.Buffer
	program := exec.CommandContext(context.WithoutCancel(t.Context()), root+"/bin/prometheus",
		"--config.file="+write("prometheus.yaml", config), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address)
	program.Stdout, program.Stderr = &log, &log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Signal(syscall.SIGTERM)
		_ = program.Wait()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", log.String())
		}
	})
	return s
}

// groupsOf returns the alerts in the form of a rule file for Prometheus without its operator.
func groupsOf(t *testing.T) []byte {
	t.Helper()
	var file struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(read(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(file.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get queries the HTTP API and decodes its data.
func (s *server) get(path string, values url.Values, into any) error {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.address+"/api/v1/"+path+"?"+values.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

// series returns the current number of series of an expression, and the value of the first.
func (s *server) series(expr string) (int, string, error) {
	var data struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	}
	if err := s.get("query", url.Values{"query": {expr}}, &data); err != nil || len(data.Result) == 0 {
		return 0, "", err
	}
	return len(data.Result), fmt.Sprint(data.Result[0].Value[1]), nil
}

func (s *server) until(what string, look func() error) {
	s.t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	}); err != nil {
		s.t.Fatalf("waiting until %s: %v", what, last)
	}
}

// empty reports whether an expression has no series in a healthy cluster: alerts, and filters on a number above 0.
func empty(where, expr string) bool {
	return strings.HasPrefix(where, "alert ") || strings.HasSuffix(expr, "> 0")
}

// TestOnPrometheus lets Prometheus scrape the operator of a cluster with one running and one waiting graph, and evaluates every expression.
func TestOnPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane and bin/prometheus")
	}
	cluster := startSandbox(t)
	s := startPrometheus(t, cluster)
	s.until("the operator is scraped, one graph placed and one refused", func() error {
		for expr, want := range map[string]string{
			`up{job="trellis-controller-manager-metrics"}`: "1", `sum(trellis_replicas_placed_total)`: "2",
			`trellis_gangs_waiting{reason="InsufficientCapacity"}`: "1", `trellis_level_free{level="rack",resource="nvidia.com/gpu"}`: "16",
			`trellis_level_largest_gang{level="rack",resource="nvidia.com/gpu",pod_size="8"}`: "8", `trellis_release_to_bound_seconds_count`: "4",
			`sum(leader_election_master_status{name="trellis-manager.trellis.dev"})`: "1",
		} {
			_, value, err := s.series(expr)
			if err != nil {
				return fmt.Errorf("%s: %w", expr, err)
			}
			if value != want {
				return fmt.Errorf("%s is %q, want %s", expr, value, want)
			}
		}
		return nil
	})
	all := expressions(t)
	s.until("every expression comes to something", func() error {
		for where, expr := range all {
			n, _, err := s.series(expr)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", where, expr, err)
			}
			if n == 0 && !empty(where, expr) {
				return fmt.Errorf("%s: %s: no series", where, expr)
			}
		}
		return nil
	})
	checkVariables(t, s)
	checkRules(t, s)
}

// checkVariables checks the values of the dashboard's variables.
func checkVariables(t *testing.T, s *server) {
	t.Helper()
	for label, want := range map[string][]string{"level": {"block", "cluster", "host", "rack", "zone"}, "resource": {"nvidia.com/gpu"}, "pod_size": {"1", "2", "4", "8"}} {
		var got []string
		if err := s.get("label/"+label+"/values", url.Values{"match[]": {`{__name__=~"trellis_level_.*"}`}}, &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s may be %v, want %v (%v)", label, got, want, err)
		}
	}
}

// checkRules checks that Prometheus evaluates every alert without an error, and that no alert fires.
func checkRules(t *testing.T, s *server) {
	t.Helper()
	s.until("every alert was evaluated", func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
		if err := s.get("rules", nil, &data); err != nil {
			return err
		}
		n := 0
		for _, group := range data.Groups {
			for _, r := range group.Rules {
				n++
				if r.Health != "ok" || r.State == "firing" {
					return fmt.Errorf("%s is %s and %s: %s", r.Name, r.Health, r.State, r.LastError)
				}
			}
		}
		if want := len(rulesOf(t)); n != want {
			return fmt.Errorf("%d alerts, want %d", n, want)
		}
		return nil
	})
}
