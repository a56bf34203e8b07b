// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// now is how many of the service's waiting replicas, the first of them, are to be placed now. The others are there for the choice of
// domains alone.
func (s *component) now() int {
	for i := range s.Waiting {
		if s.Waiting[i].Later {
			return i
		}
	}
	return len(s.Waiting)
}

// placeLater lays out what is not to be placed yet, after all that is: of two domains that hold the same now, the one that holds more of
// it is chosen.
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

// dropLater gives the capacity back that was laid out for later.
func (a *attempt) dropLater() {
	for _, s := range a.p.components {
		for _, replica := range s.Waiting[s.now():] {
			for _, pod := range replica.Pods {
				a.p.cluster.Forget(pod.ID)
			}
		}
	}
}
