//go:build race

package gate

// The race detector makes a simulated test fifteen times slower, and a pure function has no races to find.
const runsDivisor = 4
