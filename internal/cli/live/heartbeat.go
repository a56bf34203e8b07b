// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

const (
	// leaseName is the Lease of the operator's leader election, in the operator's namespace.
	leaseName = "trellis-manager.trellis.dev"
	// operatorNamespace is the operator's namespace in the manifests. A user without cluster-wide rights may be able to read in this
	// namespace.
	operatorNamespace = "trellis-system"
	// leaseDuration is the operator's lease duration. heartbeatOf uses at least this duration, because a leader that shuts down shortens
	// its Lease to one second, and a standby can take over only after this second.
	leaseDuration = 15 * time.Second
	// margin is added to the lease duration, so that a takeover by a standby is not reported as an outage, e.g. when the operator is
	// updated or a node is replaced.
	margin = 15 * time.Second
)

// ExitSilent is the exit code of a report that may be out of date, because the operator does not renew its Lease.
const ExitSilent cli.Exit = 3

// Heartbeat is the state of the operator, which writes the statuses that a report shows. The zero value means that the operator renews its
// Lease.
type Heartbeat struct {
	// Silent: the operator has not renewed its Lease in time, or has never had a Lease although it elects a leader.
	Silent bool `json:"silent"`
	// Renewed is the time of the last renewal.
	Renewed *metav1.MicroTime `json:"renewed,omitempty"`
	// Message states that the operator does not renew its Lease, or why the operator's state is unknown.
	Message string `json:"message"`
}

// ReadHeartbeat reads the Lease of the operator's leader election. It returns nil if the operator renews its Lease or runs without leader
// election. If the user lacks a right or no operator is found, Message explains why the state is unknown.
func ReadHeartbeat(ctx context.Context, c client.Reader) (*Heartbeat, error) {
	leases := &coordinationv1.LeaseList{}
	err := c.List(ctx, leases, client.MatchingFields{"metadata.name": leaseName}) // the right to list it may be limited to its name
	if apierrors.IsForbidden(err) {
		err = c.List(ctx, leases, client.MatchingFields{"metadata.name": leaseName}, client.InNamespace(operatorNamespace))
	}
	switch {
	case apierrors.IsForbidden(err):
		return &Heartbeat{Message: "You may not list leases in the whole cluster: whether the operator is running is not known."}, nil
	case err != nil:
		return nil, cli.Explain(err, "listing the operator's Lease")
	}
	if last := lastRenewed(leases.Items); last != nil {
		return heartbeatOf(last, cli.Now(c)), nil
	}
	return withoutLease(ctx, c)
}

// lastRenewed returns the most recently renewed Lease. There may be several Leases, because an operator that was moved from another
// namespace may have left its Lease there.
func lastRenewed(leases []coordinationv1.Lease) *coordinationv1.Lease {
	var last *coordinationv1.Lease
	for i := range leases {
		l := &leases[i]
		if l.Name == leaseName && l.Spec.RenewTime != nil && (last == nil || last.Spec.RenewTime.Before(l.Spec.RenewTime)) {
			last = l
		}
	}
	return last
}

// heartbeatOf returns the state of the operator from its Lease; nil if the Lease was renewed in time.
func heartbeatOf(lease *coordinationv1.Lease, now time.Time) *Heartbeat {
	lasts := max(leaseDuration, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second)
	age := now.Sub(lease.Spec.RenewTime.Time)
	if age <= lasts+margin {
		return nil
	}
	return &Heartbeat{
		Silent: true, Renewed: lease.Spec.RenewTime,
		Message: fmt.Sprintf("The operator has not renewed its lease for %s: what follows may be old.", duration.HumanDuration(age)),
	}
}

// withoutLease handles a missing Lease. It reads the operator's Deployment to distinguish an operator that has never run from an operator
// without leader election.
func withoutLease(ctx context.Context, c client.Reader) (*Heartbeat, error) {
	deployments, err := listAll(ctx, c, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, whole, Operator)
	switch {
	case err != nil && !apierrors.IsForbidden(err):
		return nil, cli.Explain(err, "listing the operator's Deployment")
	case slices.ContainsFunc(deployments, elects):
		return &Heartbeat{Silent: true, Message: "The operator has no lease, so no replica of it has started: what follows may be old."}, nil
	case len(deployments) == 0 && !outside(ctx, c):
		return &Heartbeat{
			Message: "No lease of the operator is found: it is not installed, or runs without --leader-elect. If it is not running, what follows " +
				"may be old.",
		}, nil
	}
	return nil, nil
}

// outside reports whether the operator runs outside of the cluster without leader election, as in a sandbox. In that case, the Service of
// its webhooks is an ExternalName.
func outside(ctx context.Context, c client.Reader) bool {
	services := &corev1.ServiceList{}
	err := c.List(ctx, services, client.MatchingLabels{"app.kubernetes.io/name": "trellis"})
	return err == nil && slices.ContainsFunc(services.Items, func(s corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeExternalName
	})
}

// elects reports whether an operator's Deployment enables leader election.
func elects(d *appsv1.Deployment) bool {
	for i := range d.Spec.Template.Spec.Containers {
		for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
			if value, is := strings.CutPrefix(arg, "--leader-elect"); is && (value == "" || value == "=true") {
				return true
			}
		}
	}
	return false
}

// Warn writes the message to out in the form of kubectl's warnings. It writes nothing for a nil Heartbeat.
func (h *Heartbeat) Warn(out io.Writer) {
	if h != nil {
		fmt.Fprintln(out, text.PageOf(out).Wrap("Warning: "+h.Message, "  "))
	}
}

// Show writes a warning and the report, and returns the exit code of the command.
func (h *Heartbeat) Show(o *cli.Output, report cli.Report) error {
	h.Warn(o.ErrOut)
	if err := o.Show(report); err != nil {
		return err
	}
	return h.Exit()
}

// Exit returns the exit code of a command that has shown its report: [ExitSilent] while the operator is silent.
func (h *Heartbeat) Exit() error {
	if h != nil && h.Silent {
		return ExitSilent
	}
	return nil
}
