#!/usr/bin/env bash
# run-tests.sh COMMAND...: run go test, and say in the end, after all the dumps of
# a long log, which tests failed, each with the last lines of its report. Dumps
# are what begins with "== ".
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "$*"
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
((status == 0)) && exit
printf '\n== failed\n'
awk -v most=6 '
	function flush(  i) {
		for (i = (n > most ? n - most : 0); i < n; i++) print "    " line[i]
		n = 0
	}
	/^ *--- FAIL: / { flush(); print "--- FAIL: " $3; inside = 1; next }
	/^ *--- / || /^(ok|PASS|FAIL|=== )/ { flush(); inside = 0 }
	/^(panic|fatal error): |^WARNING: DATA RACE/ { print substr($0, 1, 200) }
	/^FAIL\t/ { print }
	inside && /^ +[a-z0-9_]+\.go:[0-9]+: / && !/^ +[a-z0-9_]+\.go:[0-9]+: == / { sub(/^ +/, ""); line[n++] = substr($0, 1, 240) }
	END { flush() }
' "$log"
exit "$status"
