// Package enginetest writes event streams for tests: whole turns as an IDE backend would emit them, and random
// logs of many sessions with everything that can go wrong on the way.
package enginetest
