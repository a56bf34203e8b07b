// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// recorder is a proxy between one process and the API server, which records requests.
type recorder struct {
	mu       sync.Mutex
	requests []string
}

// newRecorder serves a recorder until the spec ends, and returns a kubeconfig that leads to it. Its requests have the rights of the config.
func newRecorder(config *rest.Config) (r *recorder, kubeconfig string) {
	GinkgoHelper()
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	r = &recorder{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.record(request)
		forward.ServeHTTP(w, request)
	})}
	DeferCleanup(server.Close)
	go func() { _ = server.Serve(listener) }()

	written := clientcmdapi.NewConfig()
	written.Clusters["recorded"] = &clientcmdapi.Cluster{Server: "http://" + listener.Addr().String()}
	written.Contexts["recorded"] = &clientcmdapi.Context{Cluster: "recorded"}
	written.CurrentContext = "recorded"
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*written, kubeconfig)).To(Succeed())
	return r, kubeconfig
}

func (r *recorder) record(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request.Method+" "+request.URL.Path)
}

// count is the number of requests so far.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// since returns the requests after the first n: writes except those of the lease, and reads of the lease.
func (r *recorder) since(n int) (writes, leaseReads []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range slices.Clone(r.requests[n:]) {
		read, lease := strings.HasPrefix(request, http.MethodGet+" "), strings.Contains(request, "/leases")
		switch {
		case read && lease:
			leaseReads = append(leaseReads, request)
		case !read && !lease:
			writes = append(writes, request)
		}
	}
	return writes, leaseReads
}
