// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"maps"
	"sync"
)

// cleared holds the names of the placeholders that were deleted because a gang was about to be released to their nodes, each with the name
// of its capacity request. Such placeholders do not count as lost. cleared has its own lock, because releases do not wait for a plan.
type cleared struct {
	mu   sync.Mutex
	asks map[string]string
}

// Cleared records that a placeholder of a capacity request was deleted before a gang was released to the placeholder's node.
func (c *cleared) Cleared(ask, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == nil {
		c.asks = map[string]string{}
	}
	c.asks[name] = ask
}

// lost returns the number of missing placeholders that were not deleted for the release of a gang.
func (c *cleared) lost(ask string, missing []Index) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range missing {
		if name := at.name(ask); c.asks[name] == "" {
			n++
		} else {
			delete(c.asks, name)
		}
	}
	return n
}

// forget drops the records of gangs that no longer wait for capacity.
func (c *cleared) forget(waiting map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.asks, func(_, ask string) bool { return !waiting[ask] })
}
