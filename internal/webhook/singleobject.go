// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"path"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// narrowed is a manager for the rotator. The rotator opens its own cache, and lists and watches all objects of a kind. narrowed limits
// these lists and watches to one object, so that the right to read this object is sufficient.
type narrowed struct {
	ctrl.Manager
	config *rest.Config
}

// narrow returns a manager whose config limits the reads of each resource in names to the object with the given name.
func narrow(mgr ctrl.Manager, names map[string]string) ctrl.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return byName{next, names} })
	return narrowed{mgr, config}
}

// GetConfig implements manager.Manager.
func (n narrowed) GetConfig() *rest.Config { return n.config }

type byName struct {
	next  http.RoundTripper
	names map[string]string
}

// RoundTrip implements http.RoundTripper.
func (b byName) RoundTrip(r *http.Request) (*http.Response, error) {
	name, listed := b.names[path.Base(r.URL.Path)]
	if !listed || r.Method != http.MethodGet {
		return b.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("fieldSelector", fields.OneTermEqualSelector("metadata.name", name).String())
	r.URL.RawQuery = query.Encode()
	return b.next.RoundTrip(r)
}
