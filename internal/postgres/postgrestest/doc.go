// Package postgrestest gives tests migrated databases of their own, on one real Postgres per test binary.
package postgrestest
