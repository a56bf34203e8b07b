// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// uncached remembers the children whose names are taken although the cache does not show them: those just created, and those of another
// client, which it never shows. They are looked for past the cache before they are created: a create that is refused costs more than a
// read, takes an address for a Service, and is charged to the namespace's ResourceQuota until that is next counted. Forgetting one costs
// no more than that. The zero value is ready.
type uncached struct {
	mu sync.Mutex
	of map[types.NamespacedName]names
}

// names of the children of one deployment.
type names struct {
	owner    types.UID
	children map[childName]bool
}

type childName struct{ kind, name string }

func nameOf(object client.Object) childName {
	return childName{object.GetObjectKind().GroupVersionKind().Kind, object.GetName()}
}

// has reports whether the object's name was taken when it was to be created for the deployment, and that the cache has not shown the object
// since.
func (u *uncached) has(dgd *nvidiav1beta1.DynamoGraphDeployment, object client.Object) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.of[client.ObjectKeyFromObject(dgd)]
	return known.owner == dgd.UID && known.children[nameOf(object)]
}

// add an object that was created for the deployment, or whose name turned out to be taken.
func (u *uncached) add(dgd *nvidiav1beta1.DynamoGraphDeployment, object client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[types.NamespacedName]names{}
	}
	key := client.ObjectKeyFromObject(dgd)
	if u.of[key].owner != dgd.UID { // none, or those of an earlier deployment of this name
		u.of[key] = names{dgd.UID, map[childName]bool{}}
	}
	u.of[key].children[nameOf(object)] = true
}

// remove an object that the cache shows.
func (u *uncached) remove(dgd *nvidiav1beta1.DynamoGraphDeployment, object client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := client.ObjectKeyFromObject(dgd)
	delete(u.of[key].children, nameOf(object))
	if len(u.of[key].children) == 0 {
		delete(u.of, key)
	}
}

// forget a deployment that is gone.
func (u *uncached) forget(deployment types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, deployment)
}
