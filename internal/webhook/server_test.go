// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server is the cluster as one spec uses it.
type server struct {
	*cluster
	ctx context.Context
}

// newServer returns the cluster of this process.
func newServer(ctx context.Context) *server {
	GinkgoHelper()
	return &server{cluster: shared, ctx: ctx}
}

// create creates an object, and deletes it when the spec ends.
func (s *server) create(object client.Object) {
	GinkgoHelper()
	Expect(s.tryCreate(object)).To(Succeed())
}

// tryCreate returns the answer to the creation of an object, which it deletes when the spec ends if it was accepted.
func (s *server) tryCreate(object client.Object) error {
	err := s.admin.Create(s.ctx, object)
	if err == nil {
		s.deleteAfter(object)
	}
	return err
}

// deleteAfter deletes an object when the spec ends, if it is there.
func (s *server) deleteAfter(object client.Object) {
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(s.admin.Delete(ctx, object))).To(Succeed()) })
}

// get reads an object by its name.
func (s *server) get(object client.Object) {
	GinkgoHelper()
	Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
}

// wantGone fails the spec if an object is there.
func (s *server) wantGone(object client.Object) {
	GinkgoHelper()
	Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(object), object)).To(Satisfy(apierrors.IsNotFound), "%s is there", object.GetName())
}

// wantRefused fails the spec unless an answer blames the client, with a 4xx, and has all of the texts.
func (s *server) wantRefused(err error, texts ...string) {
	GinkgoHelper()
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue(), "want a 4xx, got %v", err)
	Expect(status.Status().Code).To(And(BeNumerically(">=", 400), BeNumerically("<=", 499)), "%v", err)
	for _, text := range texts {
		Expect(err).To(MatchError(ContainSubstring(text)))
	}
}

// want fails the spec unless an answer is a refusal with the texts; without texts, unless it is an acceptance.
func (s *server) want(err error, texts ...string) {
	GinkgoHelper()
	if len(texts) == 0 {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	s.wantRefused(err, texts...)
}

// warnings returns what the API server warns of while f runs, which must succeed.
func (s *server) warnings(f func() error) []string {
	GinkgoHelper()
	s.warned.take()
	Expect(f()).To(Succeed())
	return s.warned.take()
}

// wantWarnings fails the spec unless the API server warns of the lines, in any order, and of nothing else while f runs.
func (s *server) wantWarnings(f func() error, lines ...string) {
	GinkgoHelper()
	got := s.warnings(f)
	slices.Sort(got)
	slices.Sort(lines)
	Expect(cmp.Diff(lines, got)).To(BeEmpty(), "warnings (-want +got)")
}

// wantWarning fails the spec unless the API server warns of a line, maybe among others, while f runs.
func (s *server) wantWarning(f func() error, line string) {
	GinkgoHelper()
	Expect(s.warnings(f)).To(ContainElement(line))
}

// eventually waits until is returns true.
func (s *server) eventually(what string, is func() bool) {
	GinkgoHelper()
	Eventually(s.ctx, is).Should(BeTrue(), "waiting until "+what)
}

// warnings collects what the API server warns a client of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

// take returns the warnings since it was called last.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}
