// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// uncached has the names of children that exist although the cache shows no object of the name: objects that were just created, and objects
// of other clients, which the cache never shows. Before a create under such a name, the object is read from the API server, because a
// refused create costs more than a read. A refused create of a Service allocates an address. A refused create also counts against the
// namespace's ResourceQuota until the quota controller recalculates the usage. If a name is missing from uncached, the only cost is a
// refused create. The zero value is ready to use.
type uncached struct {
	mu sync.Mutex
	of map[types.NamespacedName]names
}

// names has the names of one deployment's children.
type names struct {
	owner    types.UID
	children map[childName]bool
}

type childName struct{ kind, name string }

func nameOf(object client.Object) childName {
	return childName{object.GetObjectKind().GroupVersionKind().Kind, object.GetName()}
}

// has reports whether a create for the deployment has succeeded or has shown that the object's name is taken, and the cache has not shown
// the object since.
func (u *uncached) has(dgd *nvidiav1beta1.DynamoGraphDeployment, object client.Object) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.of[client.ObjectKeyFromObject(dgd)]
	return known.owner == dgd.UID && known.children[nameOf(object)]
}

// add adds an object that was created for the deployment, or whose name is already taken.
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

// remove removes an object that the cache shows.
func (u *uncached) remove(dgd *nvidiav1beta1.DynamoGraphDeployment, object client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := client.ObjectKeyFromObject(dgd)
	delete(u.of[key].children, nameOf(object))
	if len(u.of[key].children) == 0 {
		delete(u.of, key)
	}
}

// forget removes a deleted deployment.
func (u *uncached) forget(deployment types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, deployment)
}
