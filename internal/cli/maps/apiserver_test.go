// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// A user who may list everything and watch all but priority classes is given that reason, at once.
func TestWatchSaysWhatIsForbidden(t *testing.T) {
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	admin := apiserver.Start(t, env)
	user, err := env.AddUser(envtest.User{Name: "reader"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	named := metav1.ObjectMeta{Name: "reader"}
	role := &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		{APIGroups: []string{"", "grove.io", "nvidia.com", "trellis.dev"}, Resources: []string{"*"}, Verbs: []string{"watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	allowed(t, user.Config(), "nodes")
	want := `cannot watch resource "priorityclasses" in API group "scheduling.k8s.io"`
	if why := watchUntil(t, user.Config(), nil); why == nil || !strings.Contains(why.Error(), want) {
		t.Errorf("error %v, want %s", why, want)
	}

	role.Rules[1].APIGroups = []string{"*"}
	if err := admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	allowed(t, user.Config(), "priorityclasses")
	if why := watchUntil(t, user.Config(), admin); why != nil {
		t.Errorf("with all rights: %v", why)
	}
}

// allowed waits until the API server acts on a role that lets the user watch a resource.
func allowed(t *testing.T, config *rest.Config, resource string) {
	t.Helper()
	user, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	group := map[string]string{"priorityclasses": schedulingv1.GroupName}[resource]
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "watch", Group: group, Resource: resource},
	}}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience.Limit(), true, func(ctx context.Context) (bool, error) {
		answer, err := user.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}); err != nil {
		t.Fatalf("the user may not watch %s: %v", resource, err)
	}
}

// watchUntil watches until that fails, or until a priority class is seen that admin creates meanwhile; nil creates none.
func watchUntil(t *testing.T, config *rest.Config, admin client.Client) error {
	t.Helper()
	limited, stop := context.WithTimeout(t.Context(), patience.Limit())
	defer stop()
	ctx, fail := context.WithCancelCause(limited)
	defer fail(nil)
	informers, changed, err := watch(ctx, config, followedKinds(&live.Snapshot{}), lookEvery, patience.Limit(), fail)
	if err != nil {
		return err
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "made-meanwhile"}}
	if admin != nil {
		if err := admin.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
			if informers.Get(ctx, client.ObjectKeyFromObject(class), class) == nil {
				return nil
			}
		}
	}
}
