// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "sync"

// tail keeps the last of what is written.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const kept = 16 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	t.data = t.data[max(len(t.data)-kept, 0):]
	return len(p), nil
}

// String implements fmt.Stringer.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
