#!/usr/bin/env bash
# Generated files are committed. Make them anew and see whether anything changed, whatever else is uncommitted.
set -euo pipefail
cd "$(dirname "$0")/.."
sums() { git ls-files -co --exclude-standard -- api config charts docs | while read -r f; do [ -f "$f" ] && echo "$(git hash-object "$f") $f"; done; }
before=$(sums)
make -s generate
after=$(sums)
if [ "$before" != "$after" ]; then
	echo "Generated files were out of date; they have been recreated. Commit these:" >&2
	diff <(echo "$before") <(echo "$after") | awk '/^[<>]/ {print "  " $3}' | sort -u >&2
	exit 1
fi
