// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crash ends an operator in a test at one of its writes, like a process that is killed there: the write is lost, or it reaches the
// API server and only its response is lost. Every later write fails.
package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// errDead is the error of every write of a killed operator.
var errDead = errors.New("this operator is dead")

// Point is the write at which an operator ends, counted from 1; 0 is never.
type Point struct {
	At int
	// Applied means that the write reaches the API server and only the response is lost.
	Applied bool
}

func (p Point) String() string {
	return fmt.Sprintf("%d-%s", p.At, map[bool]string{false: "lost", true: "applied"}[p.Applied])
}

// All reports whether to test a crash at every write (make test-faults), instead of a sample.
var All = os.Getenv("TRELLIS_CRASHES") == "all"

// Points returns crash points of an operator that makes total writes, from the index first in steps of every.
func Points(total, first, every int) (out []Point) {
	for i := first; i < 2*total; i += every {
		// The second half of the numbers stands for the same writes with only the response lost.
		out = append(out, Point{At: 1 + i%total, Applied: i >= total})
	}
	return out
}

// Ledger counts the releases of each pod over all lives of an operator.
type Ledger struct {
	mu       sync.Mutex
	releases map[types.UID]int
}

// Repeated returns the pods that were released more than once, with the number of releases.
func (l *Ledger) Repeated() map[types.UID]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[types.UID]int{}
	for uid, n := range l.releases {
		if n > 1 {
			out[uid] = n
		}
	}
	return out
}

func (l *Ledger) note(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.releases == nil {
		l.releases = map[types.UID]int{}
	}
	l.releases[uid]++
}

// Saboteur counts an operator's writes and ends the operator at one of them.
type Saboteur struct {
	// Name is the name of the test's ClusterTopology. The operator does not write the status of others, because a test may run several
	// operators on one cluster.
	Name string
	// Point is the point at which the operator ends. Kill ends it.
	Point
	Kill context.CancelFunc
	// Provider of the operator's graphs; "" is the operator's default.
	Provider string
	// Ledger may be shared by several saboteurs.
	Ledger *Ledger

	mu     sync.Mutex
	writes int
	dead   bool
	what   string
}

// Arm restarts the count, and ends the operator at a write.
func (s *Saboteur) Arm(p Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes, s.Point = 0, p
}

// Died returns the write at which the operator ended, "" if it did not end.
func (s *Saboteur) Died() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.what
}

// Counted returns the number of counted writes.
func (s *Saboteur) Counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *Saboteur) write(what string, do func() error) error {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return errDead
	}
	s.writes++
	dies := s.writes == s.At
	if dies {
		s.dead, s.what = true, what
	}
	s.mu.Unlock()
	if !dies {
		return do()
	}
	defer s.Kill()
	if s.Applied {
		_ = do()
	}
	return errDead
}

// NewClient returns a client for an operator whose writes are counted.
func (s *Saboteur) NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	real, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	name := func(verb string, o client.Object) string { return fmt.Sprintf("%s %T %s", verb, o, o.GetName()) }
	return interceptor.NewClient(real, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return s.write(name("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.write(name("patch", o), func() error {
				err := c.Patch(ctx, o, patch, opts...)
				if pod, ok := o.(*corev1.Pod); ok && err == nil && s.Ledger != nil {
					s.Ledger.note(pod.UID)
				}
				return err
			})
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.write("apply", func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if _, topology := o.(*grovev1alpha1.ClusterTopology); topology && o.GetName() != s.Name {
				return nil
			}
			return s.write(name("patch "+sub+" of", o), func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	}), nil
}
