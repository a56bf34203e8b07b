// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// now returns the number of waiting replicas to place now, which come first in Waiting. The later replicas only influence the choice of
// domains.
func (s *component) now() int {
	for i := range s.Waiting {
		if s.Waiting[i].Later {
			return i
		}
	}
	return len(s.Waiting)
}

// placeLater places the later replicas last. If two domains hold equally many other replicas, the domain that also holds more later
// replicas is then better.
func (a *attempt) placeLater() {
	a.placePairsLater()
	for si, s := range a.p.components {
		for ri := s.now(); ri < len(s.Waiting); ri++ {
			if r := &a.results[si][ri]; r.Refusal == nil && len(r.Pods) == 0 {
				a.placeReplica(si, ri)
			}
		}
	}
}

// dropLater releases the capacity of the later replicas.
func (a *attempt) dropLater() {
	for _, s := range a.p.components {
		for _, replica := range s.Waiting[s.now():] {
			for _, pod := range replica.Pods {
				a.p.cluster.Forget(pod.ID)
			}
		}
	}
}
