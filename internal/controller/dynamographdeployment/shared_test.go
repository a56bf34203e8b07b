// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// However many names there have been, locks take no more memory, and an object has one lock.
func TestLocksOfSharedObjectsAreBounded(t *testing.T) {
	r := &Reconciler{}
	account := func(i int) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i), Name: "planner"}}
	}
	locks := map[*sync.Mutex]bool{}
	for i := range 10_000 {
		lock := r.lockOf(account(i))
		locks[lock] = true
		if r.lockOf(account(i)) != lock {
			t.Fatalf("object %d has two locks", i)
		}
	}
	if n := len(locks); n > 256 || n < 200 {
		t.Errorf("%d locks for 10000 objects, want about 256", n)
	}
}
