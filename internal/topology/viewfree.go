// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Free returns the amount of the shape's i-th requested resource that is unused on the nodes of a domain that suit the pods. The sum is
// computed on demand and kept until one of the nodes changes.
func (v *View) Free(d DomainID, i int) int64 {
	v.refresh()
	if v.freeOf != i {
		v.free, v.freeOf = v.free[:0], i
	}
	v.free = fill(v.free, len(v.tree.domains), unknownFree)
	return v.freeIn(d, i)
}

// unknownFree marks a domain whose sum is not computed yet.
const unknownFree = -1

func (v *View) freeIn(d DomainID, i int) int64 {
	if v.free[d] == unknownFree {
		v.free[d] = v.addFree(d, i)
	}
	return v.free[d]
}

func (v *View) addFree(d DomainID, i int) (free int64) {
	if v.suiting[d] == 0 {
		return 0
	}
	for _, n := range v.tree.domains[d].nodes {
		if left, _ := v.Left(n, i); left > 0 && v.suited[n] {
			free += left
		}
	}
	for _, child := range v.tree.domains[d].children {
		free += v.freeIn(child, i)
	}
	return free
}

// forgetFree invalidates the sums of a domain and its ancestors.
func (v *View) forgetFree(at DomainID) {
	for ; at != Nowhere && len(v.free) > 0; at = v.tree.domains[at].parent {
		if int(at) < len(v.free) {
			v.free[at] = unknownFree
		}
	}
}
