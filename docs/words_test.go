// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

const (
	// maxFirstWords are the words that a reader reads before something works, code included.
	maxFirstWords = 1200
	// maxUserWords are the words of all pages for users in this folder: without dev, and without the generated page.
	maxUserWords = 60000
)

// firstPages are what a reader starts with, and the text at which the first success has been described; "" means the end of the page.
var firstPages = map[string]string{
	"start-admin.md":                 "",
	"start-ml-engineer.md":           "",
	"start-on-call.md":               "",
	filepath.Join(root, "README.md"): "\nRequest a third replica",
}

// TestWordsBeforeSuccess: the first page of each reader is short, and so is the README up to a deployment that runs.
func TestWordsBeforeSuccess(t *testing.T) {
	all := pages(t)
	for page, end := range firstPages {
		text, found := all[page], true
		if end != "" {
			text, _, found = strings.Cut(text, end)
		}
		if words := len(strings.Fields(text)); !found || words == 0 || words > maxFirstWords {
			t.Errorf("%s has %d words before success, want at most %d (end found: %t)", page, words, maxFirstWords, found)
		}
		if readme := all[filepath.Join(root, "README.md")]; end == "" && !strings.Contains(readme, "](docs/"+page+")") {
			t.Errorf("the README does not link to %s", page)
		}
	}
}

// TestWordsForUsers: pages for users have a bounded number of words together.
func TestWordsForUsers(t *testing.T) {
	words := 0
	for page, content := range pages(t) {
		if page != generated && filepath.Dir(page) == "." {
			words += len(strings.Fields(content))
		}
	}
	if words > maxUserWords || words < maxUserWords/2 {
		t.Errorf("the pages for users have %d words, want at most %d", words, maxUserWords)
	}
}
