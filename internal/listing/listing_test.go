// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package listing

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// paged returns pods named by their numbers, in pages, as an API server does.
type paged struct {
	client.Reader
	pods  int
	sizes []int
}

func (p *paged) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	from, _ := strconv.Atoi(options.Continue)
	into := list.(*corev1.PodList)
	for i := from; i < p.pods && (options.Limit == 0 || int64(len(into.Items)) < options.Limit); i++ {
		pod := corev1.Pod{}
		pod.Name = strconv.Itoa(i)
		into.Items = append(into.Items, pod)
	}
	if next := from + len(into.Items); next < p.pods {
		into.Continue = strconv.Itoa(next)
	}
	p.sizes = append(p.sizes, len(into.Items))
	return nil
}

func itemsOf(l *corev1.PodList) []corev1.Pod { return l.Items }

// Each object is visited once, in pages.
func TestEach(t *testing.T) {
	for _, tc := range []struct {
		pods  int
		sizes []int
	}{{0, []int{0}}, {page, []int{page}}, {2*page + 1, []int{page, page, 1}}} {
		server := &paged{pods: tc.pods}
		seen := 0
		err := Each(t.Context(), server, &corev1.PodList{}, itemsOf, func(pod *corev1.Pod) error {
			if pod.Name != strconv.Itoa(seen) {
				t.Errorf("%d pods: pod %s after %d others", tc.pods, pod.Name, seen)
			}
			seen++
			return nil
		})
		if err != nil || seen != tc.pods {
			t.Errorf("%d of %d pods, %v", seen, tc.pods, err)
		}
		if diff := cmp.Diff(tc.sizes, server.sizes); diff != "" {
			t.Errorf("%d pods, pages (-want +got):\n%s", tc.pods, diff)
		}
	}
}

// Nothing is read after an error of visit.
func TestEachEnds(t *testing.T) {
	server, found := &paged{pods: 3 * page}, errors.New("found")
	err := Each(t.Context(), server, &corev1.PodList{}, itemsOf, func(*corev1.Pod) error { return found })
	if !errors.Is(err, found) || len(server.sizes) != 1 {
		t.Errorf("%v after %d pages", err, len(server.sizes))
	}
}

// A limit of the caller counts.
func TestEachWithALimit(t *testing.T) {
	server := &paged{pods: 5}
	err := Each(t.Context(), server, &corev1.PodList{}, itemsOf, func(*corev1.Pod) error { return nil }, client.Limit(3))
	if diff := cmp.Diff([]int{3, 2}, server.sizes); diff != "" || err != nil {
		t.Errorf("%v, pages (-want +got):\n%s", err, diff)
	}
}
