#!/usr/bin/env bash
# Fails if `make demo` of a fresh clone leaves an environment that is large, or holds what it never names.
set -euo pipefail
environment=${1:-.venv}
megabytes=$(du --summarize --block-size=1M "$environment" | cut --fields=1)
unwanted=$(ls "$environment"/lib/python3*/site-packages | grep --extended-regexp '^(torch|nvidia|triton|hypothesis)' || true)
echo "$environment: $megabytes MB"
if [[ -n $unwanted || $megabytes -ge 300 ]]; then
	echo "expected under 300 MB without torch and tools of tests, found $megabytes MB" $unwanted >&2
	exit 1
fi
