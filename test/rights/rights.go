// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights records which of the operator's rights (config/rbac/role.yaml) suites make use of.
//
//	config = rights.Of("operator").Record(config, "default") // the operator's requests, whose own namespace is default
//	...
//	os.Exit(rights.Of("operator").Finish(m.Run()))
//
// or, in a Ginkgo suite, where PassOn is for suites whose operators do not all run in the first process:
//
//	var _ = AfterSuite(rights.Of("operator").PassOn)
//	var _ = ReportAfterSuite("The rights that the operator uses", rights.Of("operator").Check)
//
// A suite fails on a request that no right allows, on a right that it uses and testdata/SUITE.txt does not list, and, when all of it ran,
// on one that is listed there, nowhere else, and not used any more. With -update it writes the file. That the files together are all
// rights is asked in test/install. A right is also used when a Role that the operator writes grants it: no one can grant more than he has.
package rights

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	_ "github.com/trellis-k8s/trellis/test/testutil/golden" // has the flag -update
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// ownNamespace is that of the operator in the manifests.
const ownNamespace = "trellis-system"

// Call is one request. Namespace and Name are empty where it is of all.
type Call struct {
	Verb, Group, Resource, Name, Namespace string
}

func (c Call) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s/%s", c.Verb, c.Group, c.Resource, c.Namespace, c.Name))
}

// Right is one verb of a rule. Own rights hold in the operator's namespace only; an empty Name is any object.
type Right struct {
	Verb, Group, Resource, Name string
	Own                         bool
}

// String is "group/resource[name] verb", and its namespace before that.
func (r Right) String() string {
	out := r.Group + "/" + r.Resource
	if r.Name != "" {
		out += "[" + r.Name + "]"
	}
	if r.Own {
		out = ownNamespace + ": " + out
	}
	return out + " " + r.Verb
}

func (r Right) allows(c Call) bool {
	return r.Verb == c.Verb && r.Group == c.Group && r.Resource == c.Resource && (r.Name == "" || r.Name == c.Name) &&
		(!r.Own || c.Namespace == ownNamespace)
}

// folder of this package, from whichever package it is asked.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// roles are the files of the operator's rights below config: those of every installation, and optional ones.
var roles = []string{"rbac/role.yaml", "kueue/kueue_role.yaml", "capacity/capacity_role.yaml"}

// Shipped are all rights of the operator.
func Shipped() ([]Right, error) {
	var documents []string
	for _, file := range roles {
		text, err := os.ReadFile(filepath.Join(folder(), "..", "..", "config", filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		documents = append(documents, strings.Split(string(text), "\n---\n")...)
	}
	found := sets.New[Right]()
	for _, document := range documents {
		role := rbacv1.Role{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, err
		}
		for _, rule := range role.Rules {
			found.Insert(rightsOf(rule, role.Kind == "Role")...)
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Right) int { return strings.Compare(a.String(), b.String()) }), nil
}

func rightsOf(rule rbacv1.PolicyRule, own bool) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					out = append(out, Right{Verb: verb, Group: group, Resource: resource, Name: name, Own: own})
				}
			}
		}
	}
	return out
}

// Used are the rights that suites make use of: those of the suite, or of all.
func Used(suite string) (sets.Set[string], error) {
	files := []string{fileOf(suite)}
	if suite == "" {
		var err error
		if files, err = filepath.Glob(fileOf("*")); err != nil {
			return nil, err
		}
	}
	found := sets.New[string]()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			found.Insert(strings.TrimSpace(line))
		}
	}
	return found.Delete(""), nil
}

func fileOf(suite string) string { return filepath.Join(folder(), "testdata", suite+".txt") }

// Suite records the requests of one suite's operators.
type Suite struct {
	name string

	mu      sync.Mutex
	shipped []Right
	err     error
	used    sets.Set[string]
	without sets.Set[string]
}

var (
	suites   = map[string]*Suite{}
	suitesMu sync.Mutex
)

// Of returns the suite of a name.
func Of(name string) *Suite {
	suitesMu.Lock()
	defer suitesMu.Unlock()
	if suites[name] == nil {
		s := &Suite{name: name, used: sets.New[string](), without: sets.New[string]()}
		s.shipped, s.err = Shipped()
		suites[name] = s
	}
	return suites[name]
}

// Note a request.
func (s *Suite) Note(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.use(c) {
		s.without.Insert(c.String())
	}
}

// Grant notes that a Role is written that grants these.
func (s *Suite) Grant(rules []rbacv1.PolicyRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		for _, r := range rightsOf(rule, false) {
			if c := (Call{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Name: r.Name}); !s.use(c) {
				s.without.Insert("granting " + c.String())
			}
		}
	}
}

func (s *Suite) use(c Call) (allowed bool) {
	for _, r := range s.shipped {
		if r.allows(c) {
			s.used.Insert(r.String())
			allowed = true
		}
	}
	return allowed
}

// Finish returns the exit code of a suite that ended with a code: another one when its requests are not as the rights and the file say.
func (s *Suite) Finish(code int) int {
	if code != 0 {
		return code
	}
	if err := s.check(whole()); err != nil {
		fmt.Fprintf(os.Stderr, "the operator's rights in suite %s: %v\n", s.name, err)
		return 1
	}
	return 0
}

// Check fails a Ginkgo suite that passed when its requests are not as the rights and the file say.
func (s *Suite) Check(report ginkgo.Report) {
	if !report.SuiteSucceeded {
		return
	}
	s.gather(report)
	if err := s.check(report.PreRunStats.SpecsThatWillRun == report.PreRunStats.TotalSpecs); err != nil {
		ginkgo.Fail(fmt.Sprintf("the operator's rights in suite %s: %v", s.name, err))
	}
}

// varying are suites whose scenarios differ from run to run, and with them the rights that are used: only a request without a right fails
// those. Their lists are updated by hand.
var varying = sets.New("e2e")

func (s *Suite) check(whole bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed, err := Used(s.name)
	if err = cmp.Or(err, s.err); err != nil {
		return err
	}
	if len(s.without) > 0 {
		return fmt.Errorf("no right of config/rbac/role.yaml allows\n  %s", strings.Join(sets.List(s.without), "\n  "))
	}
	if is("update", "true") {
		if !whole {
			s.used = s.used.Union(listed)
		}
		return os.WriteFile(fileOf(s.name), []byte(strings.Join(sets.List(s.used), "\n")+"\n"), 0o600)
	}
	if varying.Has(s.name) {
		return nil
	}
	if more := s.used.Difference(listed); len(more) > 0 {
		return fmt.Errorf("used and not listed in %s (-update adds them):\n  %s", fileOf(s.name), strings.Join(sets.List(more), "\n  "))
	}
	if !whole {
		return nil
	}
	return s.stale(listed)
}

// stale are rights that only this suite lists, and that it does not use any more.
func (s *Suite) stale(listed sets.Set[string]) error {
	files, err := filepath.Glob(fileOf("*"))
	if err != nil {
		return err
	}
	unused := listed.Difference(s.used)
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".txt"); name != s.name {
			others, err := Used(name)
			if err != nil {
				return err
			}
			unused = unused.Difference(others)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("listed in %s and not used any more (-update removes them):\n  %s", fileOf(s.name), strings.Join(sets.List(unused),
			"\n  "))
	}
	return nil
}

// whole: all tests of the package ran.
func whole() bool {
	return !tier.Core() && is("test.run", "") && is("test.skip", "") && is("test.short", "false") && is("test.list", "")
}

func is(name, value string) bool {
	f := flag.Lookup(name)
	return f == nil || f.Value.String() == value
}
