// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// The lock has a client of its own: its timeout and its name are not those of the operator's other requests.
func TestTheLockChangesNoOtherClient(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "trellis-manager"}
	before := rest.CopyConfig(config)
	if _, err := NewLock(config, types.NamespacedName{Namespace: "a", Name: "lease"}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.String(), config.String()); diff != "" {
		t.Errorf("the config (-before +after):\n%s", diff)
	}
}

// A write that is refused or not answered opens nothing, and a lease that is lost is neither read nor written again.
func TestTheLockOpensAndClosesTheFence(t *testing.T) {
	var requests atomic.Int32
	status, holder := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = w.Write([]byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"a","name":"lease"},"spec":{"holderIdentity":"` + holder + `"}}`))
		} else {
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`))
		}
	}))
	defer server.Close()
	fence := NewFence(LeaseDuration, clocktesting.NewFakePassiveClock(noon))
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	lock, err := NewLock(config, types.NamespacedName{Namespace: "a", Name: "lease"}, fence)
	if err != nil {
		t.Fatal(err)
	}
	wantFence := func(what string, want error) {
		t.Helper()
		if _, err := fence.check(); !errors.Is(err, want) {
			t.Errorf("%s: the fence answers %v, want %v", what, err, want)
		}
	}
	own := resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()}

	holder = "another"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFence("a lease of another replica", errNotElected)
	status = http.StatusConflict
	if err := lock.Update(t.Context(), own); !apierrors.IsConflict(err) {
		t.Errorf("the update ends with %v", err)
	}
	wantFence("a refused update", errNotElected)
	status, holder = http.StatusOK, lock.Identity()
	if err := lock.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	wantFence("an update", nil)

	holder = "another"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost, before := fence.Err(), requests.Load()
	if lost == nil {
		t.Fatal("the lease is held by another replica, and the fence is open")
	}
	if _, _, err := lock.Get(t.Context()); !errors.Is(err, lost) {
		t.Errorf("the next read ends with %v", err)
	}
	if err := lock.Update(t.Context(), own); !errors.Is(err, lost) {
		t.Errorf("the next update ends with %v", err)
	}
	if n := requests.Load() - before; n > 0 {
		t.Errorf("%d requests about a lost lease", n)
	}
}

func TestARelease(t *testing.T) {
	fence := NewFence(LeaseDuration, clocktesting.NewFakePassiveClock(noon))
	lock := &Lock{fence: fence, LeaseLock: &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "own"}}}
	fence.renew(fence.now())
	err := lock.write(resourcelock.LeaderElectionRecord{}, func() error {
		if _, err := fence.check(); !errors.Is(err, errReleased) {
			t.Errorf("the fence answers %v when the release is sent", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case <-fence.Lost():
		t.Error("a lease that is released is lost")
	default:
	}
}
