// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// The condition of the defaulting webhook reads an object before the schema does. It fails on none, so that the refusal names the field.

// malformed are specs in which PARTS stands for the field of components or components, ONE(...) for one of these, OTHER for what is no collection of
// them, and EMPTY for none of them.
var malformed = map[string]struct {
	spec, want string
	// stated is true where nothing is left out.
	stated bool
}{
	"a spec of null":         {spec: "null", want: "spec: Required value"},
	"a spec of text":         {spec: "a", want: "spec in body must be of type object"},
	"a spec of a number":     {spec: "1", want: "spec in body must be of type object"},
	"a spec of a list":       {spec: "[a]", want: "spec in body must be of type object"},
	"an empty spec":          {spec: "{}", want: "spec.PARTS: Required value"},
	"parts of null":          {spec: "{PARTS: null}", want: "spec.PARTS: Required value"},
	"parts of text":          {spec: "{PARTS: a}", want: "spec.PARTS in body must be of type"},
	"parts of a number":      {spec: "{PARTS: 1}", want: "spec.PARTS in body must be of type"},
	"parts of another kind":  {spec: "{PARTS: OTHER}", want: "spec.PARTS in body must be of type"},
	"no parts":               {spec: "{PARTS: EMPTY}", want: "spec.PARTS must have at least one", stated: true},
	"a part of null":         {spec: "ONE(null)", want: "PATH"},
	"a part of text":         {spec: "ONE(a)", want: "PATH in body must be of type object"},
	"a part of a number":     {spec: "ONE(1)", want: "PATH in body must be of type object"},
	"a part of a list":       {spec: "ONE([a])", want: "PATH in body must be of type object"},
	"replicas of text":       {spec: "ONE({replicas: one})", want: "PATH.replicas in body must be of type integer"},
	"replicas of quoted 1":   {spec: `ONE({replicas: "1"})`, want: "PATH.replicas in body must be of type integer"},
	"replicas of a half":     {spec: "ONE({replicas: 0.5})", want: "PATH.replicas in body must be of type int32"},
	"replicas of true":       {spec: "ONE({replicas: true})", want: "PATH.replicas in body must be of type int32"},
	"replicas of a list":     {spec: "ONE({replicas: [1]})", want: "PATH.replicas in body must be of type integer"},
	"replicas of a map":      {spec: "ONE({replicas: {a: 1}})", want: "PATH.replicas in body must be of type int32"},
	"replicas beyond 64 bit": {spec: "ONE({replicas: 99999999999999999999})", want: "PATH.replicas in body must be of type int32"},
	"replicas beyond 32 bit": {spec: "ONE({replicas: 4294967297})", want: "PATH.replicas in body", stated: true},
}

// malformedIn is one of these in a version, and the text that its refusal has.
func malformedIn(version, name string) (object *unstructured.Unstructured, want string) {
	GinkgoHelper()
	other, path := "[a]", "spec.services.a00"
	if version == "v1beta1" {
		other, path = "{a: b}", "spec.components[0]"
	}
	spec := malformed[name].spec
	if one, is := strings.CutPrefix(spec, "ONE("); is {
		spec = "{PARTS: " + listed(version, strings.TrimSuffix(one, ")")) + "}"
	}
	object = specified(version, "spec: "+strings.NewReplacer("OTHER", other, "EMPTY", listed(version)).Replace(spec))
	if name == "a part of null" && version == "v1alpha1" {
		return object, "spec.services[a00]" // it is a component without fields
	}
	return object, strings.NewReplacer("PATH", path, "PARTS", partsOf(version)).Replace(malformed[name].want)
}

// wantNamed fails the spec unless an answer is a refusal with a text, and says nothing of conditions of webhooks.
func (s *server) wantNamed(err error, text string) {
	GinkgoHelper()
	s.wantRefused(err, text)
	for _, word := range []string{"condition", "evaluat", "expression", "budget"} {
		Expect(err).NotTo(MatchError(ContainSubstring(word)))
	}
}

var _ = Describe("A create of what is malformed", func() {
	for _, version := range bothVersions {
		DescribeTable("is refused by the schema in "+version, func(ctx SpecContext, name string) {
			s := newServer(ctx)
			object, want := malformedIn(version, name)
			s.wantNamed(s.tryCreate(object), want)
		}, eachMalformed())

		It("is refused by the schema without a spec in "+version, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			s := newServer(ctx)
			s.wantNamed(s.tryCreate(deploymentOf(version, "asked")), "spec: Required value")
		})
	}

	Context("where the definition sets no replicas", Ordered, func() {
		BeforeAll(func(ctx SpecContext) { newServer(ctx).withoutDefault() }, NodeTimeout(suite.Timeout()))
		for _, version := range bothVersions {
			DescribeTable("is refused, and the webhook is asked about all that is not as expected, in "+version, func(ctx SpecContext, name string) {
				s := newServer(ctx)
				object, want := malformedIn(version, name)
				asked := 1
				if malformed[name].stated {
					asked = 0
				}
				s.wantAskedToDefault(asked, func() error {
					s.wantNamed(s.tryCreate(object), want)
					return nil
				})
			}, eachMalformed())
		}
	})
})

// eachMalformed are the names of all malformed specs.
func eachMalformed() (entries []TableEntry) {
	for _, name := range slices.Sorted(maps.Keys(malformed)) {
		entries = append(entries, Entry(name, SpecTimeout(suite.Timeout()), name))
	}
	return entries
}

// The API server bounds what a condition may cost, and has not counted the components when it asks it. It gives up on v1beta1 for so many by itself.
// A busy machine may take longer for so many than a webhook may: that is tried again.
var _ = Describe("A create of too many components", func() {
	many := func(number int) map[string]any {
		components := map[string]any{}
		for i := range number {
			components[fmt.Sprintf("a%d", i)] = map[string]any{"replicas": int64(1)}
		}
		return map[string]any{"services": components}
	}
	type tooMany struct {
		version string
		spec    map[string]any
	}
	tests := map[string]tooMany{
		"26 in v1beta1":  {"v1beta1", map[string]any{"components": slices.Repeat([]any{map[string]any{"replicas": int64(1)}}, 26)}},
		"26 in v1alpha1": {"v1alpha1", many(26)},
	}
	DescribeTable("is refused by the schema within what a condition may cost, for", func(ctx SpecContext, tc tooMany) {
		s := newServer(ctx)
		object := deploymentOf(tc.version, "asked")
		object.Object["spec"] = tc.spec
		var err error
		before, tried := askedToDefault.Load(), 0
		s.eventually("the webhook answers in time", func() bool {
			tried++
			err = s.tryCreate(object)
			return !apierrors.IsInternalError(err) && !apierrors.IsTimeout(err)
		})
		s.wantNamed(err, "25")
		Expect(askedToDefault.Load()-before).To(And(BeNumerically(">=", 1), BeNumerically("<=", tried)), "how often the defaulting webhook is asked")
	}, suite.Entries(tests, SpecTimeout(suite.Timeout())),
		Entry("40,000 in v1alpha1", suite.Slow, SpecTimeout(suite.Timeout()), tooMany{"v1alpha1", many(40_000)}))
})
