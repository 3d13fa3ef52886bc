//go:build !race

package gate

const runsDivisor = 1
