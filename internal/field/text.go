// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import (
	"fmt"
	"strings"
)

// Worded can be written in the terms of an API version. Every version except v1alpha1 uses the terms of v1beta1.
type Worded interface {
	In(version string) string
}

var _, _, _, _ Worded = (*Path)(nil), Word{}, Text{}, (*Error)(nil)

// Word is a word or a field name, in both API versions.
type Word struct{ beta, alpha string }

// Words that differ between the versions.
var (
	WordComponent    = Word{"component", "service"}
	WordComponents   = Word{"components", "services"}
	WordType         = Word{"type", "componentType"}
	WordTopologyName = Word{"clusterTopologyName", "topologyProfile"}
	WordIntraPod     = Word{"IntraPod", "intraPod"}
	WordInterPod     = Word{"InterPod", "interPod"}
	WordGPULimit     = Word{"the limit of nvidia.com/gpu", "resources.limits.gpu"}
)

// Either returns a Word with different forms in v1beta1 and v1alpha1.
func Either(beta, alpha string) Word { return Word{beta, alpha} }

// In implements [Worded].
func (w Word) In(version string) string {
	if version == v1alpha1 {
		return w.alpha
	}
	return w.beta
}

// String returns the word in v1beta1.
func (w Word) String() string { return w.beta }

// Text is a message. Its zero value is empty.
type Text struct {
	format string
	args   []any
}

// Say returns a message that is formatted like fmt.Sprintf. Arguments that are [Worded] are written in the terms of the reader's API
// version. Without arguments, the format is the message.
func Say(format string, args ...any) Text { return Text{format, args} }

// In implements [Worded].
func (t Text) In(version string) string {
	if len(t.args) == 0 {
		return t.format
	}
	args := make([]any, len(t.args))
	for i, arg := range t.args {
		if worded, ok := arg.(Worded); ok {
			arg = worded.In(version)
		}
		args[i] = arg
	}
	return fmt.Sprintf(t.format, args...)
}

// String returns the message in v1beta1.
func (t Text) String() string { return t.In("") }

// Plain returns messages that are the same in all versions.
func Plain(lines []string) []Text {
	out := make([]Text, 0, len(lines))
	for _, line := range lines {
		out = append(out, Say(line))
	}
	return out
}

// Join joins messages into one.
func Join(list []Text, separator string) Text {
	args := make([]any, len(list))
	for i, text := range list {
		args[i] = text
	}
	return Text{strings.TrimSuffix(strings.Repeat("%s"+separator, len(list)), separator), args}
}

// In returns the messages in the terms of a version.
func In[T Worded](list []T, version string) []string {
	var out []string
	for _, item := range list {
		out = append(out, item.In(version))
	}
	return out
}
