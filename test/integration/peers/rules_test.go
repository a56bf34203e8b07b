// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const placed = nvidiav1alpha1.ConditionPlaced

// rule is one thing that holds for every user under every provider (docs/placement.md). test/e2e checks the same rules, by the same names, under the
// providers whose schedulers run in a sandbox; here they are checked through the running operator under KAI and Grove, and with LeaderWorkerSets, whose
// definitions are real and whose operators are played by hand. What makes the rule hold is checked exactly: what is written for KAI and Grove, which
// sets there are, and where pods are pinned. Where a provider does not keep a rule, what reports it is checked instead.
type rule struct {
	nodes            []host
	level, preferred string
	components       components
	// waits for requeueAfter and more: the spec begins before the others, so that no process is left alone with it.
	waits bool
	// kai runs under KAI, and under Gates with LeaderWorkerSets: what the pods show is the same.
	kai, grove func(w *world)
}

// multinode reports whether a LeaderWorkerSet would make some of the pods.
func (r rule) multinode() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.components)), func(s *nvidiav1alpha1.ServiceSpec) bool { return s.Multinode != nil })
}

// rules are all of them.
var rules = func() map[string]rule {
	all := maps.Clone(choosing)
	maps.Copy(all, running)
	return all
}()

// tree waits until this is written for KAI; the deployment is g in it.
func (w *world) tree(want string) {
	GinkgoHelper()
	if w.sets != nil {
		return
	}
	w.until("the PodGroup is\n"+want, func() error {
		if got := w.podGroupNow(); got != strings.TrimSpace(want) {
			return fmt.Errorf("it is\n%s", got)
		}
		return nil
	})
}

// podGroupNow is "" when there is none.
func (w *world) podGroupNow() string {
	GinkgoHelper()
	object, err := client.Resource(resources["PodGroup"]).Namespace(w.ns).Get(w.ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return w.plain(providertest.SketchKAI(read[kai.PodGroup](object)))
}

// expectNothing: nothing was written for KAI.
func (w *world) expectNothing() {
	GinkgoHelper()
	Expect(w.podGroupNow()).To(BeEmpty(), "what KAI got")
}

// documented: the page on providers has this in the row of a guarantee, in the column of a provider or in a note that the cell refers to.
func (w *world) documented(row, provider, want string) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "providers.md"))
	Expect(err).NotTo(HaveOccurred())
	guarantee, found := guaranteeIn(string(raw), row, provider)
	Expect(found).To(BeTrue(), "docs/providers.md has no row %q with a column %s", row, provider)
	Expect(guarantee).To(ContainSubstring(want), "docs/providers.md, row %q, column %s", row, provider)
}

// guaranteeIn is the cell of a row of the first table with a column for the provider that has such a row, and the notes that the cell refers to.
func guaranteeIn(page, row, provider string) (guarantee string, found bool) {
	column, inTable := -1, false
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch isRow := len(cells) > 2 && cells[0] == ""; {
		case isRow && !inTable: // the header
			column = slices.Index(cells, provider)
		case isRow && column >= 0 && cells[1] == row:
			return cells[column] + notesOf(page, cells[column]), true
		}
		inTable = strings.HasPrefix(line, "|")
	}
	return "", false
}

var (
	noteNumber = regexp.MustCompile(`\((\d+)\)`)
	nextNote   = regexp.MustCompile(`\n\d+\. `)
)

// notesOf are the notes of the page that a cell refers to by their numbers, each in one line.
func notesOf(page, cell string) string {
	GinkgoHelper()
	_, notes, _ := strings.Cut(page, "\n**Notes**\n")
	notes, _, _ = strings.Cut(notes, "\n#")
	out := ""
	for _, number := range noteNumber.FindAllStringSubmatch(cell, -1) {
		_, note, found := strings.Cut(notes, "\n"+number[1]+". ")
		Expect(found).To(BeTrue(), "docs/providers.md has no note %s", number[1])
		out += "\n" + strings.Join(strings.Fields(nextNote.Split(note, 2)[0]), " ")
	}
	return out
}

// providers under which the rules are checked: what a deployment is annotated with, and how the rule is checked there.
var providers = map[string]struct {
	label              Labels
	provider, workload string
	check              func(r rule) func(*world)
}{
	"KAI":   {label: labelKAI, provider: specs.KAI.Name, check: func(r rule) func(*world) { return r.kai }},
	"Grove": {label: labelGrove, provider: specs.Grove.Name, check: func(r rule) func(*world) { return r.grove }},
	"Gates with LeaderWorkerSet": {label: labelLWS, provider: specs.Gates.Name, workload: specs.LeaderWorkerSet,
		check: func(r rule) func(*world) { return r.kai }},
}

var _ = Describe("Rules", func() {
	names := slices.Sorted(maps.Keys(rules))
	for _, title := range slices.Sorted(maps.Keys(providers)) {
		Describe("under "+title, providers[title].label, func() {
			for i, name := range names {
				r := rules[name]
				under := r.providers()
				j := slices.Index(under, title)
				if j < 0 {
					continue
				}
				labels := Label()
				if j != i%len(under) { // the core tier has each rule under one of the providers, in turn
					labels = suite.Slow
				}
				It(name, labels, SpecPriority(bools.Int(r.waits)), SpecTimeout(suite.Timeout()), func(ctx SpecContext) { r.holds(ctx, i, title) })
			}
		})
	}
})

// providers are the titles of those under which the rule is checked.
func (r rule) providers() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(providers)), func(title string) bool {
		return providers[title].workload != "" && !r.multinode() // Trellis makes the pods of other components itself, as without sets
	})
}

// holds checks the rule of this number in a world of its own.
func (r rule) holds(ctx context.Context, number int, title string) {
	GinkgoHelper()
	p := providers[title]
	w := newWorld(ctx, fmt.Sprintf("%s%d%s", strings.ToLower(p.provider), number, strings.ToLower(p.workload)), r.nodes...)
	if p.workload != "" {
		w.sets = &lwsWorld{ctx: ctx, ns: w.ns, selector: render.LabelGraph + "=" + w.name}
	}
	of := components{}
	for name, s := range r.components {
		of[name] = s.DeepCopy()
	}
	w.deploy(p.provider, r.level, r.preferred, of)
	p.check(r)(w)
	w.inSets()
}

// inSets: with LeaderWorkerSets, every pod of a multinode component is a set's, and every set is its scaling group's.
func (w *world) inSets() {
	GinkgoHelper()
	if w.sets == nil {
		return
	}
	objects := w.sets.objects()
	Expect(objects).NotTo(BeEmpty(), "there is no LeaderWorkerSet")
	for _, object := range objects {
		owner := metav1.GetControllerOf(object)
		sg := &trellisv1alpha1.ScalingGroup{}
		Expect(typed.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: owner.Name}, sg)).To(Succeed(), "the owner of %s", object.GetName())
		Expect(sg.UID).To(Equal(owner.UID), "the owner of %s", object.GetName())
	}
	pods, err := w.pods()
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		component := w.dgd().Spec.Services[pods[i].Labels[render.LabelComponent]]
		if owner := metav1.GetControllerOf(&pods[i]); component.Multinode != nil {
			Expect(owner.Kind).To(Equal("StatefulSet"), "%s is not made by a set", pods[i].Name)
		}
	}
}
