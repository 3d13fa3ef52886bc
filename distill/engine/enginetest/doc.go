// Package enginetest writes random logs for tests: many sessions, with everything that can go wrong on the way.
package enginetest
