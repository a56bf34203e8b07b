// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// byGraph counts, in the maps of a struct and of what it points to that are keyed by the names of graphs, the entries of one graph. What several
// fields point to counts once.
func byGraph(v reflect.Value, path string, name types.NamespacedName, seen map[uintptr]bool, into map[string]int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] && v.Elem().Kind() == reflect.Struct && v.Type().Elem().PkgPath() == reflect.TypeFor[queue]().PkgPath() {
			seen[v.Pointer()] = true
			byGraph(v.Elem(), path, name, seen, into)
		}
	case reflect.Struct:
		if v.CanAddr() {
			seen[v.UnsafeAddr()] = true
		}
		for i := range v.NumField() {
			byGraph(v.Field(i), path+"."+v.Type().Field(i).Name, name, seen, into)
		}
	case reflect.Map:
		if v.Type().Key() == reflect.TypeFor[types.NamespacedName]() && v.MapIndex(reflect.ValueOf(name)).IsValid() {
			into[path]++
		}
	}
}

// Nothing is remembered of a graph that is gone, or the operator's memory would grow with each that comes and goes. A map by graph that is new is found
// here: it has to be filled below, and emptied by forgetGraph.
func TestNothingIsRememberedOfAGraphThatIsGone(t *testing.T) {
	s, name := newBench(t, Options{}).s, types.NamespacedName{Namespace: "ns", Name: "g"}
	s.queue.setWaiting(name, true, waiting{})
	s.queue.add(name)
	s.queue.take(begin)
	s.queue.addAt(name, begin.Add(time.Hour))
	s.line.Add(turns.Turn{Namespace: name.Namespace, Name: name.Name})
	s.results.set(name, gang.Result{Wanted: 1})
	s.ledger.reserver.join(name, 0, begin, begin)
	s.ledger.backoffs.begin(name, "", begin)
	s.ledger.failures.note(name, errors.New("refused"), begin)
	s.ledger.waits[name] = map[gang.Key]wait{}
	count := func() []string {
		out := map[string]int{}
		byGraph(reflect.ValueOf(s), "", name, map[uintptr]bool{}, out)
		if s.line.Len() > 0 {
			out[".line"]++
		}
		var fields []string
		for field := range out {
			fields = append(fields, field)
		}
		slices.Sort(fields)
		return fields
	}
	want := []string{
		".announcer.results.byName", ".ledger.backoffs", ".ledger.failures", ".ledger.reserver.line", ".ledger.waits",
		".line", ".queue.later", ".queue.taken", ".queue.waiting",
	}
	if got := count(); !slices.Equal(got, want) {
		t.Errorf("filled are %v, want %v", got, want)
	}
	s.forgetGraph(name)
	if got := count(); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
}
