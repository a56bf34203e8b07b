// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// reading are the commands that report what the operator wrote.
var reading = []string{"explain chat", "map", "plan --cluster dgd chat", "queue", "status chat", "tree"}

// admin may write to the cluster.
func (c *cluster) admin(t *testing.T) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// open has the node take pods, so that a plan fits.
func open(t *testing.T, admin client.Client) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-0"}}
	if err := admin.Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))); err != nil {
		t.Fatal(err)
	}
	status := []byte(`{"status":{"allocatable":{"pods":"8"},"capacity":{"pods":"8"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	if err := admin.Status().Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", status)); err != nil {
		t.Fatal(err)
	}
}

// expect runs the commands that read and compares their exit code and the warning on their standard error.
func (c *cluster) expect(t *testing.T, user string, code int, warning string) {
	t.Helper()
	for _, line := range reading {
		args := append(strings.Fields(line), "--as", user, "--kubeconfig", c.kubeconfig)
		out, errOut, err := c.run(t.Context(), args...)
		got, _ := cli.ExitCode(err)
		if got != code || !strings.Contains(strings.Join(strings.Fields(errOut), " "), warning) || warning == "" && errOut != "" {
			t.Errorf("%s: exit code %d, want %d; standard error %q, want %q\n%.300s", line, got, code, errOut, warning, out)
		}
		if strings.Contains(out, "Warning") {
			t.Errorf("%s: a warning on the standard output:\n%s", line, out)
		}
	}
}

// TestSilentOperator: while the operator does not renew its Lease, every command that reports what it wrote warns, and ends with a code of its own.
func TestSilentOperator(t *testing.T) {
	c := startCluster(t)
	admin := c.admin(t)
	open(t, admin)
	c.expect(t, "planner", 0, "") // its Deployment elects no leader

	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trellis-manager"}}
	patch := `[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["--leader-elect"]}]`
	if err := admin.Patch(t.Context(), manager, client.RawPatch("application/json-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "planner", int(live.ExitSilent), "Warning: The operator has no lease")

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trellis-manager.trellis.dev"}}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour))), ptr.To(int32(15))
	create(t, admin, lease)
	c.expect(t, "planner", int(live.ExitSilent), "Warning: The operator has not renewed its lease for 60m: what follows may be old.")
	out, _, _ := c.run(t.Context(), "status", "chat", "-o", "json", "--as", "planner", "--kubeconfig", c.kubeconfig)
	var report struct{ Operator *live.Heartbeat }
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Operator == nil || !report.Operator.Silent || report.Operator.Renewed == nil {
		t.Errorf("%v: no operator in %s", err, out)
	}

	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(time.Hour))) // renewed for as long as this test runs
	if err := admin.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "planner", 0, "")
	c.fitsTerminals(t)
}

// fitsTerminals runs all commands that report on a terminal: no line is wider than that.
func (c *cluster) fitsTerminals(t *testing.T) {
	t.Helper()
	for _, columns := range []uint16{80, 100, 160} {
		for _, line := range []string{
			"explain chat", "plan --cluster dgd chat", "queue", "queue -n nope", "status chat", "topology suggest", "tree", "tree --free 8 --level zone", "version",
		} {
			got, _ := onTerminal(t, columns, append(strings.Fields(line), "--as", "planner", "--kubeconfig", c.kubeconfig)...)
			if len(got) < 10 {
				t.Errorf("%s at %d columns: %q", line, columns, got)
			}
			for out := range strings.Lines(got) {
				if width := text.Width(strings.TrimSuffix(out, "\n")); width > int(columns) {
					t.Errorf("%s: %d of %d columns: %s", line, width, columns, out)
				}
			}
		}
	}
	out, _, err := c.run(t.Context(), "queue", "-n", "nope", "--as", "planner", "--kubeconfig", c.kubeconfig)
	if err != nil || out != "Namespace nope does not exist.\n" {
		t.Errorf("queue -n nope: %v, %q", err, out)
	}
	if _, _, err := c.run(t.Context(), "status", "caht", "--as", "planner", "--kubeconfig", c.kubeconfig); err == nil || !strings.Contains(err.Error(), "did you mean chat?") {
		t.Errorf("status caht: %v", err)
	}
}

// TestLeaseMayNotBeRead: a user who may not list leases gets a note, and no error.
func TestLeaseMayNotBeRead(t *testing.T) {
	c := startCluster(t)
	admin := c.admin(t)
	limited := role(t)
	limited.Name, limited.ResourceVersion = "no-leases", ""
	limited.Rules = nil
	for _, rule := range role(t).Rules {
		if rule.APIGroups[0] != "coordination.k8s.io" {
			limited.Rules = append(limited.Rules, rule)
		}
	}
	create(t, admin, limited)
	open(t, admin)
	c.bind(t, admin, "no-leases", "ann")
	c.expect(t, "ann", 0, "Warning: You may not list leases in the whole cluster: whether the operator is running is not known.")
}

// bind gives a user a role, and waits until the API server acts on it.
func (c *cluster) bind(t *testing.T, admin client.Client, role, user string) {
	t.Helper()
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience.Limit(), true, func(ctx context.Context) (bool, error) {
		_, _, err := c.run(ctx, "queue", "--as", user, "--kubeconfig", c.kubeconfig)
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
}
