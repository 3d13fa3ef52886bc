#!/bin/sh
# Builds the TypeScript client and runs its tests with OpenFeature's real SDKs. Needs node 20 or newer with npm, and go for
# the gateway that they ask.
set -eu
cd "$(dirname "$0")"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "SKIPPED: the TypeScript client was NOT tested: there is no node with npm here; install Node.js 20 or newer, then: make test-typescript"
  exit 0
fi
if [ "$(node -p 'process.versions.node.split(".")[0] >= 20')" != true ]; then
  echo "SKIPPED: the TypeScript client was NOT tested: it needs Node.js 20 or newer, this is $(node --version)"
  exit 0
fi
if ! cmp -s package.json node_modules/installed.json 2>/dev/null; then
  npm install --silent --no-audit --no-fund
  cp package.json node_modules/installed.json
fi
rm -rf dist
exec npm test --silent
