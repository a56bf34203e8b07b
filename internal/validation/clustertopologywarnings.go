// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// UserOf is a deployment that names a ClusterTopology, with the levels that the deployment uses.
type UserOf struct {
	Namespace, Name string
	Domains         []string
}

// TopologyWarnings returns warnings that name the deployments affected by a change of a ClusterTopology. A deployment is affected if the
// change removes a level that it uses, or changes the level's meaning. updated is nil on delete. The API server accepts the change, and
// running pods keep running.
func TopologyWarnings(updated, old *grovev1alpha1.ClusterTopology, users []UserOf) []string {
	if old == nil {
		return nil
	}
	if updated == nil {
		if all := namesOf(users, nil); len(all) > 0 {
			return Bounded([]field.Text{line(field.Say("%s %q is in use; running pods stay, and gangs that need one of its levels "+
				"wait until it is back", old.Source(), short(old.Name)), all)}, "")
		}
		return nil
	}
	if apiequality.Semantic.DeepEqual(updated.Spec.Levels, old.Spec.Levels) {
		return nil
	}
	var lines []field.Text
	for _, level := range old.Spec.Levels {
		what := changeOf(level, updated, old)
		if what == "" {
			continue
		}
		if using := namesOf(users, &level.Domain); len(using) > 0 {
			lines = append(lines, line(field.Say("level %q %s while in use; running pods stay where they are", short(level.Domain), what), using))
		}
	}
	return Bounded(lines, "")
}

// changeOf describes the effect of a change on one level; "" for no effect.
func changeOf(level grovev1alpha1.TopologyLevel, updated, old *grovev1alpha1.ClusterTopology) string {
	at := levelIndex(updated, level.Domain)
	switch {
	case at < 0:
		return "is removed"
	case updated.Spec.Levels[at].Key != level.Key:
		return fmt.Sprintf("changes its key from %s to %s", cut(level.Key, 40), cut(updated.Spec.Levels[at].Key, 40))
	case !slices.Equal(broaderThan(level.Domain, old, updated), broaderThan(level.Domain, updated, old)):
		return "changes its place in the order of levels"
	}
	return ""
}

// broaderThan lists, sorted by name, the levels of a topology that are broader than the given level. It omits levels that the other
// topology (alsoIn) lacks, because inserting a level does not change the order of the other levels.
func broaderThan(domain string, in, alsoIn *grovev1alpha1.ClusterTopology) []string {
	var broader []string
	for _, level := range in.Spec.Levels[:levelIndex(in, domain)] {
		if levelIndex(alsoIn, level.Domain) >= 0 {
			broader = append(broader, level.Domain)
		}
	}
	slices.Sort(broader)
	return broader
}

// namesOf lists the users of a level, or of any level, as namespace/name.
func namesOf(users []UserOf, domain *string) []string {
	var names []string
	for _, u := range users {
		if domain == nil || slices.Contains(u.Domains, *domain) {
			names = append(names, u.Namespace+"/"+u.Name)
		}
	}
	slices.Sort(names)
	return names
}
