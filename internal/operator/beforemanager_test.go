// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// part is a manager of which only Start is used: it runs until its context or an error ends it.
type part struct {
	ctrl.Manager
	running bool
	fail    chan error
}

func newPart() *part { return &part{fail: make(chan error, 1)} }

func (p *part) Start(ctx context.Context) error {
	p.running = true
	defer func() { p.running = false }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.fail:
		return err
	}
}

func TestFrontRunsFirstAndLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served, outside, inside := make(chan struct{}), newPart(), newPart()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- (&front{Manager: outside, served: served, linger: time.Second}).runBefore(ctx, inside)
		}()
		expect := func(when string, front, rest bool) {
			t.Helper()
			synctest.Wait()
			if outside.running != front || inside.running != rest {
				t.Errorf("%s: the front runs %t, the rest %t", when, outside.running, inside.running)
			}
		}
		expect("before anything is served", true, false)
		close(served)
		expect("once it is served", true, true)
		stop()
		expect("when the end was asked for", true, false)
		begin := time.Now()
		if err := <-ended; err != nil || time.Since(begin) != time.Second {
			t.Errorf("ended after %s: %v", time.Since(begin), err)
		}
		expect("at last", false, false)
	})
}

func TestFrontAndRestEndTogether(t *testing.T) {
	fault := errors.New("a fault")
	for name, fails := range map[string]func(front, rest *part) *part{
		"the front": func(front, _ *part) *part { return front }, "the rest": func(_, rest *part) *part { return rest },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served, outside, inside := make(chan struct{}), newPart(), newPart()
				close(served)
				ended := make(chan error, 1)
				go func() {
					ended <- (&front{Manager: outside, served: served, linger: time.Hour}).runBefore(t.Context(), inside)
				}()
				synctest.Wait()
				begin := time.Now()
				fails(outside, inside).fail <- fault
				if err := <-ended; !errors.Is(err, fault) || time.Since(begin) > 0 || outside.running || inside.running {
					t.Errorf("%v after %s; the front runs %t, the rest %t", err, time.Since(begin), outside.running, inside.running)
				}
			})
		})
	}
	t.Run("the end is asked for before anything is served", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			outside, inside := newPart(), newPart()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- (&front{Manager: outside, served: make(chan struct{}), linger: time.Hour}).runBefore(ctx, inside)
			}()
			synctest.Wait()
			stop()
			if err := <-ended; err != nil || outside.running || inside.running {
				t.Errorf("%v; the front runs %t, the rest %t", err, outside.running, inside.running)
			}
		})
	})
}

// Admission does not wait for the cache, and reads no more than the operator may.
func TestDeploymentsAreReadLiveAtFirst(t *testing.T) {
	holding := func(namespaces ...string) client.Reader {
		b := fake.NewClientBuilder().WithScheme(NewScheme())
		for _, ns := range namespaces {
			b = b.WithObjects(&nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "g"}})
		}
		return b.Build()
	}
	for name, c := range map[string]struct {
		synced     bool
		namespaces []string
		want       int
	}{
		"cached":                           {synced: true, want: 1},
		"live":                             {want: 3},
		"live, of two namespaces":          {namespaces: []string{"a", "b"}, want: 2},
		"cached, whatever it was narrowed": {synced: true, namespaces: []string{"a", "b"}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployments{Reader: holding("a"), live: holding("a", "b", "c"), namespaces: c.namespaces, synced: func() bool { return c.synced }}
			list := &nvidiav1beta1.DynamoGraphDeploymentList{}
			if err := d.List(t.Context(), list, client.UnsafeDisableDeepCopy); err != nil || len(list.Items) != c.want {
				t.Errorf("%d deployments, want %d: %v", len(list.Items), c.want, err)
			}
		})
	}
}
