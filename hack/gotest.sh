#!/usr/bin/env bash
# hack/gotest.sh FLAGS... PACKAGES...: go test -json for gotestsum, once for every module of the packages, since go test takes packages of one module.
# MODULES are the folders of the modules below this one, which DIR/... includes.
set -o pipefail
cd "$(dirname "$0")/.." || exit 1
failed=0
for module in . $MODULES; do
	flags=() tested=()
	for arg; do
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
	[ ${#tested[@]} = 0 ] || go -C "$module" test -json "${flags[@]}" "${tested[@]}" || failed=1
done
exit $failed
