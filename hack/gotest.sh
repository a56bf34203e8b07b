#!/usr/bin/env bash
# hack/gotest.sh FLAGS... PACKAGES...: go test, once for every module of the packages, since go test takes packages of one module.
# MODULES are the folders of the modules below this one, which DIR/... includes.
# The test programs stay below bin/tests, and are linked again only when they change: linking takes longer than most of them run. With -c, which only
# compiles, the packages of Ginkgo suites get a link to their program, which ginkgo runs.
set -o pipefail
cd "$(dirname "$0")/.." || exit 1

# Programs of the same name need a folder each, whatever else is tested: number, import path and folder of the packages of a module that have tests.
numbered() {
	go -C "$1" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./... |
		awk 'NF { name = $1; sub(/.*\//, "", name); print ++n[name], $0 }'
}

failed=0 tests=0
for module in . $MODULES; do
	flags=() tested=() only=
	for arg; do
		case $arg in -c) only=yes ;; esac
		case $arg in ./*) ;; *) flags+=("$arg") && continue ;; esac
		in=.
		for other in $MODULES; do case $arg/ in "./$other/"*) in=$other ;; esac; done
		if [ "$in" = "$module" ]; then
			[ "$in" = . ] || arg=.${arg#"./$in"}
			tested+=("$arg")
		else
			case $arg in */...) case ./$module/ in "${arg%...}"*) tested+=(./...) ;; esac ;; esac
		fi
	done
	[ ${#tested[@]} = 0 ] && continue
	all=$(numbered "$module") && wanted=$(go -C "$module" list "${tested[@]}") || { failed=1 && continue; }
	packages=$(awk 'NR == FNR { package[$2] = $0; next } $1 in package { print package[$1] }' <(echo "$all") <(echo "$wanted"))
	# The folder with the most programs is the last: the others leave CPUs idle at their end.
	for number in $(cut -d' ' -f1 <<< "$packages" | sort -urn); do
		programs=$PWD/bin/tests/$module/$number paths=() own=()
		mkdir -p "$programs"
		while read -r at path dir; do
			[ "$at" = "$number" ] || continue
			paths+=("$path")
			[ -z "$only" ] || [ ! -e "$dir/suite_test.go" ] || ln -sf "$programs/${dir##*/}.test" "$dir/"
		done <<< "$packages"
		for flag in "${flags[@]}"; do
			case $flag in -coverprofile=*) [ "$number" = 1 ] || flag+=.$number ;; esac # each go test writes a file of its own
			own+=("$flag")
		done
		tests=$((tests + ${#paths[@]}))
		go -C "$module" test -ldflags='-s -w' -o "$programs/" "${own[@]}" "${paths[@]}" || failed=1
	done
done
[ "$tests" -gt 0 ] || { echo "no tests in the packages of: $*" >&2 && exit 1; }
exit $failed
